"""Rolling replacements of a managed deployment's VMs: their rules, and the choice of the next step.

A step is chosen only from the state of all VMs, not from data of earlier steps. Therefore any sweeper may execute
the next step after another sweeper died.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class ReplaceMethod(StrEnum):
    """The method by which VMs are replaced."""

    RESTORE = "Restore"
    """The root disk of each VM is made anew; its id, name and addresses stay."""

    RECREATE = "Recreate"
    """New VMs are deployed, and the old ones are destroyed."""


class ReplacementState(StrEnum):
    """The state of a replacement."""

    IN_PROGRESS = "InProgress"
    PAUSED = "Paused"
    """A checkpoint was reached; ``resumeBulkOperation`` continues."""

    FAILED = "Failed"
    """Too many VMs failed; ``resumeBulkOperation`` tries again, or ``rollback`` begins."""

    COMPLETED = "Completed"
    SUPERSEDED = "Superseded"
    """A later replacement began, or the management of the deployment ended, before this one was completed."""


@dataclass(frozen=True, slots=True)
class Member:
    """A VM of the deployment that is not being destroyed.

    Attributes:
        id: the VM.
        is_old: whether the VM has the previous parameters and must be replaced.
        is_available: whether the VM runs, has no unfinished job and, if it was replaced, its guest answers the
            health check.
        is_broken: whether the VM is in state Error, or its guest did not answer the health check in time.
        has_job: whether the VM has an unfinished job.
        has_failed: whether this replacement could not restore the VM, and counted that as a failure.
        was_counted: whether the failure of this new VM was counted before the replacement was resumed.
        awaits_answer: whether the VM was replaced and runs, and its guest does not answer the health check yet.
    """

    id: int
    is_old: bool
    is_available: bool
    is_broken: bool = False
    has_job: bool = False
    has_failed: bool = False
    was_counted: bool = False
    awaits_answer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacementRules:
    """The limits of a replacement.

    Attributes:
        method: how VMs are replaced.
        desired: the number of VMs that the deployment should have.
        total: the number of VMs to replace when the replacement began.
        max_surge: the maximum number of VMs in excess of ``desired``.
        max_unavailable: how many of the ``desired`` VMs may be unavailable.
        pause_at: the number of replaced VMs at which the replacement pauses, or None.
        max_failures: the number of failed VMs above which the replacement fails.
        failures: the number of VMs that have failed so far.
    """

    method: ReplaceMethod
    desired: int
    total: int
    max_surge: int
    max_unavailable: int
    pause_at: int | None = None
    max_failures: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacementStep:
    """The next step of a replacement.

    Attributes:
        state: the new state of the replacement.
        create: the number of VMs to deploy.
        remove: the ids of VMs to destroy.
        restore: the ids of VMs to restore.
        failed: the ids of new VMs that are broken and count as failures; they are in ``remove`` unless the
            replacement fails.
    """

    state: ReplacementState = ReplacementState.IN_PROGRESS
    create: int = 0
    remove: tuple[int, ...] = ()
    restore: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()


def next_step(rules: ReplacementRules, members: Sequence[Member]) -> ReplacementStep:
    """Return the next step of a replacement that is in progress.

    At least ``desired - max_unavailable`` VMs are available at any moment, unless users or failures make VMs
    unavailable. There are at most ``desired + max_surge`` VMs. VMs whose restore failed may be unavailable beyond
    ``max_unavailable``; ``max_failures`` limits their number.
    """
    old = [vm for vm in members if vm.is_old]
    if rules.method is ReplaceMethod.RESTORE:
        return _restore_step(rules, members, old)
    new = [vm for vm in members if not vm.is_old]
    broken, failed = _broken(new)
    if rules.failures + len(failed) > rules.max_failures and failed:
        return ReplacementStep(state=ReplacementState.FAILED, failed=failed)
    kept_old = _kept_until_resumed(rules, old)
    wanted_new = max(0, rules.desired - kept_old)
    sound = [vm for vm in reversed(new) if vm.id not in broken]
    surplus = _removable(rules, members, sound, len(sound) - wanted_new)
    removed = _removable(rules, [vm for vm in members if vm.id not in surplus], old, len(old) - kept_old)
    staying = len(members) - len(removed) - len(broken) - len(surplus)
    create = min(wanted_new - len(sound), rules.desired + rules.max_surge - staying)
    if len(old) <= kept_old and len(new) == wanted_new and all(vm.is_available for vm in new):
        done = ReplacementState.COMPLETED if not old else ReplacementState.PAUSED
        return ReplacementStep(state=done)
    return ReplacementStep(create=max(0, create), remove=(*broken, *surplus, *removed), failed=failed)


def _restore_step(rules: ReplacementRules, members: Sequence[Member], old: Sequence[Member]) -> ReplacementStep:
    broken, failed = _broken([vm for vm in members if not vm.is_old])
    if rules.failures + len(failed) > rules.max_failures:
        return ReplacementStep(state=ReplacementState.FAILED, failed=failed)
    kept_old = _kept_until_resumed(rules, old)
    begun = _removable(rules, members, old, len(old) - kept_old)
    unfinished = any(vm.has_job or vm.awaits_answer for vm in members if not vm.is_old)
    if begun or broken or unfinished or len(old) > kept_old:
        # VMs that a user destroyed count as unavailable; unless they are replaced, no other VM may be restored.
        missing = 0 if begun else max(0, rules.desired - len(members) + len(broken))
        return ReplacementStep(restore=begun, create=missing, remove=broken, failed=failed)
    return ReplacementStep(state=ReplacementState.PAUSED if old else ReplacementState.COMPLETED)


def _broken(new: Sequence[Member]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids of broken new VMs, and the ids of those whose failure was not counted yet.

    Broken VMs are destroyed and deployed again.
    """
    broken = [vm for vm in new if vm.is_broken and not vm.has_job and not vm.has_failed]
    return tuple(vm.id for vm in broken), tuple(vm.id for vm in broken if not vm.was_counted)


def _kept_until_resumed(rules: ReplacementRules, old: Sequence[Member]) -> int:
    """Return how many of the old VMs are kept until a user resumes the paused replacement.

    Users may have destroyed some of these VMs.
    """
    return 0 if rules.pause_at is None else min(len(old), max(0, rules.total - rules.pause_at))


def _removable(
    rules: ReplacementRules, members: Sequence[Member], candidates: Sequence[Member], most: int
) -> tuple[int, ...]:
    """Return the ids of at most ``most`` candidates that may become unavailable now, unavailable VMs first."""
    failed = sum(vm.has_failed and not vm.is_available for vm in members)
    spare = sum(vm.is_available for vm in members) - (rules.desired - rules.max_unavailable - failed)
    idle = [vm for vm in candidates if not vm.has_job]
    down = [vm.id for vm in idle if not vm.is_available]
    up = [vm.id for vm in idle if vm.is_available]
    return tuple([*down, *up[: max(0, spare)]][: max(0, most)])
