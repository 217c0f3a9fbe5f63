"""The power driver ``ipmitool``, for controllers with IPMI over a network; it runs the program ipmitool.

Passwords are passed in the program's environment or on its standard input, never as arguments, which every user of
the machine can read.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import Field
from typing_extensions import override

from bulkdeploy.domain.infrastructure.power import PowerAction, PowerState
from bulkdeploy.drivers.options import DriverOptions
from bulkdeploy.power.driver import Bmc, PowerDriver, PowerError
from bulkdeploy.processes.run_program import ProgramEnd, ProgramKilled, ProgramNotRun, run_program

ACTIONS: Mapping[PowerAction, str] = {
    PowerAction.ON: "on",
    PowerAction.OFF: "off",
    PowerAction.CYCLE: "cycle",
    PowerAction.RESET: "reset",
    PowerAction.SOFT: "soft",
}

STATES = {"chassis power is on": PowerState.ON, "chassis power is off": PowerState.OFF}

PASSWORD = "IPMI_PASSWORD"  # noqa: S105 - the name of a variable

SHORT_PASSWORD_BYTES, LONG_PASSWORD_BYTES = 16, 20
"""The two sizes in which IPMI stores passwords."""

AUTH_ERRORS = ("rakp 2 hmac is invalid", "no response from rakp 1", "unauthorized", "invalid user name", "password")
"""Parts of ipmitool's output if a controller rejects the user or the password."""

UNANSWERED = ("unable to establish", "timeout", "no response", "address lookup", "error in open session")
NOISE = ("loading iana", "using best available", "running get", "discovered ipmb")
"""Beginnings of lines in ipmitool's error output that are not errors."""

LONGEST_COMPLAINT = 500

RAW_FAILED = "unable to send raw"
"""A part of ipmitool's output if a raw request failed; the exit code may be 0 nevertheless."""


class IpmitoolOptions(DriverOptions):
    """Options of the power driver ``ipmitool``."""

    program: Path = Field(default=Path("/usr/bin/ipmitool"), description="The path of the program ipmitool.")
    interface: Literal["lanplus", "lan"] = Field(
        default="lanplus", description="lanplus: IPMI 2.0, which encrypts; lan: IPMI 1.5, which does not."
    )
    tries: int = Field(
        default=2, ge=1, le=10, description="How often a packet is sent if the controller does not answer."
    )
    answer_seconds: int = Field(
        default=2, ge=1, le=60, description="Seconds until a packet that got no answer is sent again."
    )


class IpmitoolDriver(PowerDriver):
    """The power driver for controllers with IPMI."""

    options_model = IpmitoolOptions
    changes_passwords = True

    def __init__(self, options: IpmitoolOptions) -> None:
        self._options = options

    @classmethod
    @override
    def from_options(cls, options: IpmitoolOptions) -> Self:
        return cls(options)

    @override
    def power_state(self, bmc: Bmc, *, timeout_s: float) -> PowerState:
        printed = self._run(bmc, ["chassis", "power", "status"], timeout_s)
        lines = [line.strip().lower() for line in printed.splitlines()]
        return next((STATES[line] for line in lines if line in STATES), PowerState.UNKNOWN)

    @override
    def act(self, bmc: Bmc, action: PowerAction, *, timeout_s: float) -> None:
        if action in (PowerAction.ON, PowerAction.OFF):
            wanted = PowerState.ON if action is PowerAction.ON else PowerState.OFF
            if self.power_state(bmc, timeout_s=timeout_s) is wanted:
                return
        self._run(bmc, ["chassis", "power", ACTIONS[action]], timeout_s)

    def change_password(self, bmc: Bmc, password: str, *, timeout_s: float) -> None:
        """Change the password of the controller's user.

        The new password is sent as numbers in a raw request on standard input, because ipmitool would interpret
        some characters.
        """
        secret = password.encode()
        if len(secret) > LONG_PASSWORD_BYTES:
            raise PowerError(bmc.host_name, f"IPMI allows passwords of at most {LONG_PASSWORD_BYTES} bytes")
        size = SHORT_PASSWORD_BYTES if len(secret) <= SHORT_PASSWORD_BYTES else LONG_PASSWORD_BYTES
        user = self._user_number(bmc, timeout_s) | (0x80 if size == LONG_PASSWORD_BYTES else 0)
        request = " ".join(f"0x{number:02x}" for number in (0x06, 0x47, user, 0x02, *secret.ljust(size, b"\0")))
        self._run(bmc, ["exec", "/dev/stdin"], timeout_s, given=f"raw {request}\n")

    def _user_number(self, bmc: Bmc, timeout_s: float) -> int:
        for line in self._run(bmc, ["user", "list"], timeout_s).splitlines()[1:]:
            words = line.split()
            if len(words) > 1 and words[1] == bmc.username and words[0].isdecimal():
                return int(words[0])
        raise PowerError(bmc.host_name, f"the controller has no user {bmc.username!r}")

    def _run(self, bmc: Bmc, request: list[str], timeout_s: float, given: str = "") -> str:
        options = self._options
        command = [str(options.program), "-I", options.interface, "-H", bmc.address, "-p", str(bmc.port)]
        command += [
            "-U",
            bmc.username,
            "-E",
            "-v",
            "-R",
            str(options.tries),
            "-N",
            str(options.answer_seconds),
            *request,
        ]
        try:
            end = run_program(
                command, timeout_s=timeout_s, environment={PASSWORD: bmc.password}, given=given.encode()
            )
        except ProgramNotRun as error:
            raise PowerError(bmc.host_name, str(error)) from error
        except ProgramKilled as error:
            raise PowerError(bmc.host_name, f"ipmitool: {error}", is_unanswered=True) from error
        if end.code == 0 and RAW_FAILED not in end.complained.lower():
            return end.printed
        raise _failure(bmc, end)


def _failure(bmc: Bmc, end: ProgramEnd) -> PowerError:
    lines = [line.strip("> ") for line in end.complained.splitlines()]
    reported = [line for line in dict.fromkeys(lines) if line and not line.lower().startswith(NOISE)]
    complaint = "; ".join(reported) or f"ipmitool ended with {end.how}"
    if bmc.password:
        complaint = complaint.replace(bmc.password, "***")
    lower = complaint.lower()
    is_auth = any(part in lower for part in AUTH_ERRORS)
    is_unanswered = not is_auth and any(part in lower for part in UNANSWERED)
    return PowerError(bmc.host_name, complaint[:LONGEST_COMPLAINT], is_auth=is_auth, is_unanswered=is_unanswered)
