"""A driver call for one guest of an extension, with the guest's stored state (one file: one class)."""

import socket
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from typing import Any
from uuid import UUID

from typing_extensions import override

from bulkdeploy.drivers.abilities.custom_actions import CustomAction
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.exchanges.fenced_call import FencedCall
from bulkdeploy.drivers.extension.extension import KEPT_UNDER, Extension, KeptGuest, Made, error_of
from bulkdeploy.drivers.extension.payload import (
    OFF,
    ON,
    UNKNOWN,
    WrongAnswer,
    prepared,
    read_console,
    without_prefix,
)
from bulkdeploy.drivers.extension.program import ActionFailed
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.records import FencedGuest
from bulkdeploy.drivers.vnc import VncRefused, connect_to_vnc

GONE = "gone"
"""The state of a guest that was created and does not exist on its host any more."""

AGAIN_S = 0.5
"""The pause before ``prepare`` runs again after it returned an identity that is in use, in seconds."""


class ExtensionCall(FencedCall):
    """A call for one guest and its stored state. If no host is given, the call uses the guest's last host."""

    def __init__(
        self, extension: Extension, host: HostAddress | None, guest_uuid: UUID, fence: int, timeout_s: float
    ) -> None:
        super().__init__(extension.records.fences, host, guest_uuid, fence, timeout_s)
        self._extension = extension
        self.kept: KeptGuest | None = None

    @property
    def known(self) -> KeptGuest:
        """The stored state of the guest.

        Raises:
            ValueError: the guest has no stored state.
        """
        if self.kept is None:
            raise ValueError(f"guest {self.guest} has no stored state")
        return self.kept

    @override
    def fenced_here(self, step: str) -> FencedGuest:
        return self._read(super().fenced_here(step))

    @override
    def raise_fence_elsewhere(self, step: str) -> FencedGuest:
        return self._read(super().raise_fence_elsewhere(step))

    @override
    def claim(self, step: str, volume_uuids: Collection[UUID]) -> FencedGuest:
        return self._read(super().claim(step, volume_uuids))

    def _read(self, fenced: FencedGuest) -> FencedGuest:
        self.kept = KeptGuest.of(fenced)
        if self.host is None:
            hosts = self._extension.records.directory.hosts()
            may_have = fenced.host_uuids or ({UUID(self.kept.host)} if self.kept and self.kept.host else set())
            self.host = next((host for host in hosts if host.uuid in may_have), None)
        return fenced

    def keep(self, kept: KeptGuest | None) -> None:
        """Replace the stored state of the guest, with the call's host as the last host. None deletes the state."""
        if kept is not None and self.host is not None:
            kept = replace(kept, host=str(self.host.uuid))
        self.store_details("boot", {} if kept is None else {KEPT_UNDER: asdict(kept)})
        self.kept = kept

    def make(self) -> None:
        """Prepare and create a guest that does not exist.

        If the executable rejects the creation, an object with the prepared identity may belong to another user of
        the hypervisor. The object is not changed, and the next attempt prepares another identity.

        Raises:
            DriverError: the guest was not created, or its creation has no known result.
        """
        new = self.known
        self._prepare()
        before = self.find()
        if before == ON:
            self.keep(new)
            text = "prepare returned the identity of a running guest"
            raise DriverError("boot", self.host_name, text, transient=True)
        try:
            self._create()
        except DriverError as error:
            if not error.unanswered and (before != UNKNOWN or not self._is_certainly_there()):
                self.keep(new)
            raise

    def _prepare(self) -> None:
        """Run ``prepare`` until it returns an identity with which no other guest of this service is being created.

        An executable that returns the next free number does not reserve the number: concurrent calls get the same
        number until one of them has begun to create its guest.
        """
        new = self.known
        while True:
            try:
                vm = prepared(new.vm, self._run("prepare"))
            except WrongAnswer as error:
                raise self.error("boot", f"prepare: {error}") from error
            details = vm.get("details") or {}
            with self._extension.records.clusters.turn(
                f"extension {self._extension.options.executable}", timeout_s=self.left
            ):
                other = self._other_with(details) if self._extension.options.details_identify else None
                if other is None:
                    self.keep(replace(new, vm=vm, external={**new.external, **without_prefix(details)}))
                    return
            if self.is_over:
                text = (
                    f"prepare returns the details of guest {other}, which is being created: {', '.join(details)}."
                    " If details do not identify a guest, set driver.extension.details_identify = false"
                )
                raise DriverError("boot", self.host_name, text, transient=True)
            time.sleep(AGAIN_S)

    def _other_with(self, details: Mapping[str, Any]) -> UUID | None:
        """Return another guest of this service that may exist with exactly these details, or None.

        A created guest exists with its number, which no executable returns again. Without ``statuses``, a created
        guest is assumed to exist.
        """
        if not details:
            return None
        alike = self.fences.guests_with({KEPT_UNDER: {"vm": {"details": dict(details)}}})
        for guest_uuid, fenced in alike.items():
            kept = KeptGuest.of(fenced)
            is_made = kept is not None and kept.made is Made.YES
            if guest_uuid != self.guest and not (is_made and self._extension.options.statuses):
                return guest_uuid
        return None

    def make_after_lost_answer(self, new: KeptGuest) -> None:
        """Make the guest run after a creation whose response was lost.

        If an object with the prepared identity and the guest's name runs, it is this guest, and nothing is done. If
        no such object exists, the guest is prepared again. An object with the identity and another name belongs to
        another user and is not changed.
        """
        found = self.find_ours()
        if found == ON:
            return
        if found == UNKNOWN and self._extension.options.statuses:
            self.keep(new)
            self.make()
            return
        self._run("delete")
        self._create()

    def _create(self) -> None:
        self.keep(replace(self.known, made=Made.MAYBE))
        self._run("create")
        self._give_way()

    def start_again(self) -> None:
        """Start a guest that was created before, unless it runs.

        Raises:
            DriverError: the guest does not exist any more. It is not created again. Or the start failed.
        """
        found = self.look()
        if found == GONE:
            reason = (
                f"the hypervisor does not have guest {self.known.name} and its disk any more. restoreVirtualMachine"
                " creates both again from the template"
            )
            raise self.error("volume", reason)
        if found == OFF:
            self._run("start")
            self._give_way()

    def _give_way(self) -> None:
        """Undo the start if a call with a higher fence was made meanwhile and does not run the guest.

        Raises:
            StaleFence: a call with a higher fence was made.
        """
        if self.fences.is_highest(self.guest, self.fence):
            return
        fenced = self.fences.guests_with_details().get(self.guest)
        if fenced is None:
            self._run("delete")
        elif not fenced.host_uuids:
            self._run("stop")
        raise self.stale("boot")

    def stop(self) -> None:
        """Stop the guest if it runs. If the response of its creation was lost, its remains are deleted."""
        if self.kept is None or self.kept.made is Made.NO:
            return
        if self.known.made is Made.MAYBE and self.find_ours() == UNKNOWN:
            if not self._extension.options.statuses:
                self._run("delete")
            self.keep(replace(self.known, made=Made.NO))
        elif self.look() == ON:
            self._run("stop")

    def stop_here(self) -> None:
        """Stop the guest on the call's host without checking its state first."""
        self._run("stop")

    def delete(self) -> None:
        """Delete the guest, which may run, and its stored state."""
        if self.known.made is not Made.NO:
            found = self.find()
            is_certain = self.known.made is Made.YES or not self._extension.options.statuses
            if (found == UNKNOWN and is_certain) or self.find_ours() != UNKNOWN:
                if found == ON:
                    self._run("stop")
                self._run("delete")
        self.keep(None)

    def find(self) -> str:
        """Return the power state of the object with the guest's identity, whatever its name is.

        Returns UNKNOWN if no such object exists or if ``status`` fails.
        """
        try:
            return self._state()
        except DriverError:
            return UNKNOWN

    def find_ours(self) -> str:
        """Return the power state of the guest.

        Returns UNKNOWN if no object has the guest's identity, or if the object has another name.

        Raises:
            DriverError: ``statuses`` failed, so the owner of the object is unknown.
        """
        found = self.find()
        return UNKNOWN if found != UNKNOWN and self._has_other_name() else found

    def _has_other_name(self) -> bool:
        """Return True if the host certainly has no guest with this guest's name."""
        states = None if self.host is None else self._extension.states(self.host, self.left)
        return states is not None and self.known.name not in states

    def _is_certainly_there(self) -> bool:
        """Return True if a guest with this name and identity certainly exists. An error counts as False."""
        if not self._extension.options.statuses or self.host is None:
            return False
        try:
            return self.find_ours() != UNKNOWN
        except DriverError:
            return False

    def look(self) -> str:
        """Return the power state of a created guest, or GONE if ``statuses`` lists no guest with its name.

        Raises:
            DriverError: the state cannot be read.
        """
        state = self._state_or_failure()
        if self._has_other_name():
            return GONE
        if isinstance(state, str) and state != UNKNOWN:
            return state
        if isinstance(state, DriverError):
            raise state
        raise DriverError("look", self.host_name, "status: the state of the guest is unknown", transient=True)

    def _state_or_failure(self) -> str | DriverError:
        try:
            return self._state()
        except DriverError as error:
            return error

    def _state(self) -> str:
        return self._extension.state(self.host, self.known, self.left)

    def open_screen(self) -> socket.socket:
        """Connect to the VNC server of the guest, which must run on the call's host.

        Raises:
            DriverError: the guest does not run there, or its screen cannot be reached.
        """
        where = self.fences.guests_with_details().get(self.guest, FencedGuest())
        self.kept = KeptGuest.of(where)
        here = self.host is not None and self.host.uuid in where.host_uuids
        if self.kept is None or not here or self.find() != ON:
            raise self.error("console", "the guest does not run there")
        try:
            screen = read_console(self._run("getconsole"))
        except WrongAnswer as error:
            raise self.error("console", f"getconsole: {error}") from error
        if isinstance(screen, str):
            raise self.error(
                "console", f"the guest's console is a web page, which the service cannot show: {screen}"
            )
        try:
            return connect_to_vnc(screen.address, screen.port, screen.password, timeout_s=self.left)
        except (OSError, VncRefused) as error:
            reason = f"the guest's VNC server at {screen.address}, port {screen.port}: {error}"
            raise self.error("console", reason, transient=True) from error

    def run_custom_action(self, action: CustomAction) -> str:
        """Run a custom action on an existing guest, and return the output of the action.

        Raises:
            DriverError: the guest was never created, or the action failed.
        """
        if self.kept is None or self.kept.made is Made.NO:
            raise self.error(
                "custom_action", "the guest does not exist before the first start of its virtual machine"
            )
        payload = self._extension.payload(self.host, self.kept)
        if action.details:
            payload["externaldetails"]["action"] = dict(action.details)
        payload["action"] = action.name
        if action.parameters:
            payload["parameters"] = dict(action.parameters)
        try:
            return self._extension.program.print(action.name, payload, timeout_s=self.left)
        except ActionFailed as error:
            raise self.error("custom_action", str(error), transient=error.unanswered) from error

    def _run(self, action: str) -> Mapping[str, Any]:
        payload = self._extension.payload(self.host, self.kept)
        try:
            return self._extension.program.run(action, payload, timeout_s=self.left)
        except ActionFailed as error:
            raise error_of(action, self.host_name, error) from error
