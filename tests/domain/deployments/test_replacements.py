"""Steps of rolling replacements keep their limits and come to an end, whatever happens between them."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.domain.deployments.replacements import (
    Member,
    ReplacementRules,
    ReplacementState,
    ReplaceMethod,
    next_step,
)


@st.composite
def _rules(draw: st.DrawFn) -> ReplacementRules:
    desired = draw(st.integers(1, 12))
    there = max(1, desired + draw(st.integers(-2, 2)))
    method = draw(st.sampled_from(ReplaceMethod))
    surge = draw(st.integers(0, 4)) if method is ReplaceMethod.RECREATE else 0
    return ReplacementRules(
        method=method,
        desired=desired,
        total=there,
        max_surge=surge,
        max_unavailable=draw(st.integers(0 if surge else 1, 4)),
        pause_at=draw(st.none() | st.integers(1, there)),
        max_failures=100,
    )


@given(rules=_rules(), data=st.data())
def test_a_replacement_keeps_its_limits_and_ends(rules: ReplacementRules, data: st.DataObject) -> None:
    """Jobs end in any order or fail, users destroy VMs, and another size is asked for.

    No step makes more VMs than allowed or leaves too few available ones, and all VMs become new.
    There may be more or fewer VMs than desired at the beginning.
    """
    vms = {number: Member(number, is_old=True, is_available=True) for number in range(rules.total)}
    born, pauses, destroyed = rules.total, 0, 0
    for _ in range(20 * rules.desired + 60):
        step = next_step(rules, list(vms.values()))
        if step.state is ReplacementState.PAUSED:
            pauses += 1
            assert rules.pause_at is not None
            assert sum(vm.is_old for vm in vms.values()) <= rules.total - rules.pause_at
            rules = replace(rules, pause_at=None)
            continue
        if step.state is ReplacementState.COMPLETED:
            break
        were, were_available = len(vms), sum(vm.is_available for vm in vms.values())
        for vm_id in step.remove:
            del vms[vm_id]
        for vm_id in step.restore:
            vms[vm_id] = Member(vm_id, is_old=False, is_available=False, has_job=True)
        for _ in range(step.create if not step.remove else 0):
            vms[born] = Member(born, is_old=False, is_available=False, has_job=True)
            born += 1
        assert len(vms) <= max(were, rules.desired + rules.max_surge)
        available = sum(vm.is_available for vm in vms.values())
        not_restored = sum(vm.has_failed and not vm.is_available for vm in vms.values())
        assert available >= min(were_available, rules.desired - rules.max_unavailable - not_restored)
        rules = replace(rules, failures=rules.failures + len(step.failed))
        failures = _end_jobs(vms, data, first_born=rules.total, may_break=born < 40)
        rules = replace(rules, failures=rules.failures + failures)
        idle = [vm.id for vm in vms.values() if not vm.has_job]
        if destroyed < 3 and idle and data.draw(st.integers(0, 4)) == 0:
            destroyed += 1
            del vms[data.draw(st.sampled_from(idle))]
            rules = replace(rules, desired=max(1, rules.desired + data.draw(st.integers(-2, 2))))
    else:
        raise AssertionError("the replacement does not end")
    if rules.method is ReplaceMethod.RECREATE:
        assert len(vms) == rules.desired
    assert not any(vm.is_old or vm.has_job or vm.awaits_answer for vm in vms.values())
    assert pauses <= 1


def _end_jobs(vms: dict[int, Member], data: st.DataObject, *, first_born: int, may_break: bool) -> int:
    """End the job of the first VM that has one, and of some others, and return how many VMs were not restored.

    A failed deployment leaves a VM in state Error. A failed restore leaves the VM stopped or running. Guests answer
    their health check with the end of the job, later, or not in time, which is a failure as well.
    """
    awaited = [vm.id for vm in vms.values() if vm.awaits_answer]
    working = [vm.id for vm in vms.values() if vm.has_job]
    not_restored = 0
    for vm_id in awaited:
        if data.draw(st.booleans()) or vm_id == awaited[0]:
            is_lost = may_break and data.draw(st.integers(0, 9)) == 0
            is_created = vm_id >= first_born
            vms[vm_id] = replace(
                vms[vm_id],
                awaits_answer=False,
                is_available=not is_lost,
                is_broken=is_lost,
                has_failed=is_lost and not is_created,
            )
            not_restored += is_lost and not is_created
    for vm_id in working:
        if data.draw(st.booleans()) or vm_id == working[0]:
            fails = may_break and data.draw(st.integers(0, 9)) == 0
            is_created = vm_id >= first_born
            if not fails and data.draw(st.booleans()):
                vms[vm_id] = replace(vms[vm_id], has_job=False, awaits_answer=True)
                continue
            vms[vm_id] = replace(
                vms[vm_id],
                has_job=False,
                is_available=not fails or (not is_created and data.draw(st.booleans())),
                is_broken=fails and is_created,
                has_failed=fails and not is_created,
            )
            not_restored += fails and not is_created
    return not_restored


def test_too_many_failures_stop_a_replacement() -> None:
    """One broken new VM is replaced if it may be; otherwise nothing more is done."""
    members = [
        Member(1, is_old=True, is_available=True),
        Member(2, is_old=False, is_available=False, is_broken=True),
    ]
    rules = ReplacementRules(
        method=ReplaceMethod.RECREATE, desired=2, total=2, max_surge=0, max_unavailable=1, max_failures=1
    )
    assert next_step(rules, members).remove == (2,)
    assert next_step(replace(rules, failures=1), members).state is ReplacementState.FAILED


def test_a_broken_vm_in_place_of_a_destroyed_one_is_replaced_while_others_are_restored() -> None:
    """A created VM in state Error counts as a failure; a VM that could not be restored is not counted again."""
    members = [
        Member(1, is_old=True, is_available=True),
        Member(2, is_old=False, is_available=False, is_broken=True, has_failed=True),
        Member(3, is_old=False, is_available=False, is_broken=True),
    ]
    rules = ReplacementRules(
        method=ReplaceMethod.RESTORE, desired=3, total=3, max_surge=0, max_unavailable=1, max_failures=2, failures=1
    )
    step = next_step(rules, members)
    assert (step.remove, step.failed, step.restore, step.create) == ((3,), (3,), (), 1)
    assert next_step(replace(rules, failures=2), members).state is ReplacementState.FAILED
