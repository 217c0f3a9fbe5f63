"""A check whether an executable follows CloudStack's Extension protocol. It runs every action on a test guest."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any
from uuid import uuid4

from bulkdeploy.drivers.extension.driver import ANY_TEMPLATE
from bulkdeploy.drivers.extension.options import ExtensionOptions
from bulkdeploy.drivers.extension.payload import (
    OFF,
    ON,
    UNKNOWN,
    WrongAnswer,
    host_details,
    payload_of,
    power_of_word,
    prepared,
    read_console,
    read_host_url,
    vm_of,
    without_prefix,
)
from bulkdeploy.drivers.extension.program import ActionFailed, Program
from bulkdeploy.drivers.guests import GuestSpec
from bulkdeploy.drivers.need import Need
from bulkdeploy.drivers.vnc import VncRefused, connect_to_vnc

MEMORY_MIB = 512
NOT_AN_ACTION = "no-such-action"


def check_extension(url: str, options: ExtensionOptions, template: str | None, patience_s: float) -> Iterator[Need]:
    """Run every action on a test guest, and yield the result of each action.

    The actions run in the order of a guest's life. The check ends after the first failure. The guest is always
    deleted.

    Args:
        url: the url of the host on which the test guest is created, as for addHost.
        options: the options of the driver.
        template: the template whose details the guest gets. None: the details of ``default``.
        patience_s: the time limit of each action in seconds.
    """
    try:
        read_host_url(url)
    except ValueError as error:
        yield Need(
            "host",
            str(error),
            "the three sizes are the capacity of the host; other keys are sent to the executable",
        )
        return
    trial = _Trial(options, host_details(url), template, patience_s)
    try:
        for action, does, remedy in trial.actions():
            try:
                found = does()
            except (WrongAnswer, ActionFailed) as error:
                yield Need(action, str(error), remedy)
                return
            yield Need(action, found)
    finally:
        trial.clean_up()


class _Trial:
    def __init__(
        self, options: ExtensionOptions, host: Mapping[str, str], template: str | None, patience_s: float
    ) -> None:
        self._details = {key: value.get_secret_value() for key, value in options.details.items()}
        self._program = Program(options.executable, at_once=1, secrets=list(self._details.values()))
        self._has_statuses, self._host, self._patience_s = options.statuses, host, patience_s
        self._external = dict(options.templates.get(template or ANY_TEMPLATE, {}))
        guest = uuid4()
        self._vm = vm_of(GuestSpec(guest, f"bulkdeploy-check-{guest.hex[:8]}", 1, 1000, MEMORY_MIB, (), ()))
        self._began = False

    def actions(self) -> Iterator[tuple[str, Callable[[], str], str]]:
        """Yield for each action its name, a function that tests it, and the remedy if the test fails."""
        refuse = 'print {"status": "error", "error": "..."} and end with exit code 1'
        yield NOT_AN_ACTION, self._refused, f"an unknown action must fail: {refuse}"
        if self._has_statuses:
            says = (
                'print {"status": "success", "power_state": {"NAME": "poweron"}}, or set driver.extension.statuses'
            )
            yield "statuses", self._statuses, f"{says} = false"
        yield "prepare", self._prepare, "print an object that is merged into cloudstack.vm.details, or nothing"
        yield (
            "create",
            self._create,
            "afterwards the guest must run: status must report poweron, statuses must contain the guest",
        )
        yield (
            "stop",
            lambda: self._then("stop", OFF),
            "afterwards the guest must not run, and status must report poweroff",
        )
        yield "start", lambda: self._then("start", ON), "afterwards the guest must run"
        yield "reboot", lambda: self._then("reboot", ON), "afterwards the guest must run"
        vnc = 'print {"console": {"protocol": "vnc", "host": "...", "port": "...", "password": "..."}}'
        yield "getconsole", self._console, f"{vnc}, or end with exit code 1 if guests have no screens"
        yield "stop, before delete", lambda: self._then("stop", OFF), "the guest must stop before it is deleted"
        yield (
            "delete",
            lambda: self._then("delete", UNKNOWN),
            "afterwards status must fail, or report neither poweron nor poweroff",
        )
        yield (
            "delete, again",
            lambda: self._then("delete", UNKNOWN),
            "deleting a guest that does not exist must succeed, because deletion may be repeated",
        )

    def clean_up(self) -> None:
        """Stop and delete the guest if it may exist.

        Errors are ignored.

        The guest is stopped first, because executables may refuse to delete a running guest.
        """
        for action in ("stop", "delete") if self._began else ():
            with suppress(ActionFailed):
                self._run(action)

    def _refused(self) -> str:
        try:
            self._run(NOT_AN_ACTION)
        except ActionFailed as error:
            if error.unanswered:
                raise
            return "refused"
        raise WrongAnswer("the unknown action succeeded")

    def _statuses(self) -> str:
        states = self._program.run(
            "statuses", payload_of(self._details, self._host), timeout_s=self._patience_s
        ).get("power_state")
        if not isinstance(states, dict):
            raise WrongAnswer(f"power_state must be an object; it is {states!r}")
        if self._began and power_of_word(states.get(self._name)) != ON:
            raise WrongAnswer(
                f"statuses must report poweron for {self._name}; it reports {states.get(self._name)!r}"
            )
        return f"{len(states)} guests"

    @property
    def _name(self) -> str:
        return str(self._external.get("vm_name") or self._vm["name"])

    def _prepare(self) -> str:
        self._vm = prepared(self._vm, self._run("prepare"))
        self._external |= without_prefix(self._vm.get("details"))
        return f"details {', '.join(self._vm['details']) or 'none'}"

    def _create(self) -> str:
        self._began = True
        found = self._then("create", ON)
        if self._has_statuses:
            self._statuses()
        return found

    def _then(self, action: str, expected: str) -> str:
        self._run(action)
        state, said = self._state()
        if state != expected:
            raise WrongAnswer(f"after {action}, status must report {expected}, not {said}")
        return f"{self._name} is {state}" if state != UNKNOWN else f"{self._name} is gone"

    def _state(self) -> tuple[str, str]:
        """Return the guest's power state and the output of ``status``.

        If ``status`` fails, as for a guest that does not exist, the state is UNKNOWN and the output is the error.
        """
        try:
            word = self._run("status").get("power_state")
        except ActionFailed as error:
            if error.unanswered:
                raise
            return UNKNOWN, str(error)
        return power_of_word(word), repr(word)

    def _console(self) -> str:
        try:
            screen = read_console(self._run("getconsole"))
        except ActionFailed as error:
            if error.unanswered:
                raise
            return f"guests have no screens ({error})"
        if isinstance(screen, str):
            return f"a page of its own, {screen}; createConsoleEndpoint does not show it"
        try:
            connect_to_vnc(screen.address, screen.port, screen.password, timeout_s=self._patience_s).close()
        except (OSError, VncRefused) as error:
            raise WrongAnswer(f"no VNC server at {screen.address}, port {screen.port}: {error}") from error
        return f"a VNC server at {screen.address}, port {screen.port}"

    def _run(self, action: str) -> Mapping[str, Any]:
        payload = payload_of(self._details, self._host, self._external, self._vm)
        return self._program.run(action, payload, timeout_s=self._patience_s)
