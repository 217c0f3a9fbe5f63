"""Rules of offerings, templates, ISOs and networks."""

import pytest

from tests.inventory.support import assert_refused

OFFERING = "{name: Small, cpu_number: 1, cpu_mhz: 500, memory: 512 MiB}"
TEMPLATE = "{name: Debian, hypervisor: KVM, size: 2 GiB}"
RANGES = "ranges: [{start: 10.1.0.10, end: 10.1.0.20}]"

BROKEN = [
    # what is offered
    (
        OFFERING,
        OFFERING.replace(", memory: 512 MiB", ""),
        "11: service_offerings[0].memory: cpu_number and memory are",
    ),
    (OFFERING, OFFERING.replace(", cpu_mhz: 500", ""), "11: service_offerings[0].cpu_mhz: must be given where"),
    (
        "{name: Custom}",
        "{name: Custom, min_cpu_number: 4, max_cpu_number: 2}",
        "12: service_offerings[1].max_cpu_number: must not be below min_cpu_number",
    ),
    (
        "{name: Custom}",
        "{name: Custom, min_memory: 1 GiB}",
        "12: service_offerings[1].max_memory: must be given together",
    ),
    (
        OFFERING,
        f"{OFFERING[:-1]}, max_cpu_number: 2}}",
        "11: service_offerings[0].min_cpu_number: bounds are for custom offerings",
    ),
    (
        "{name: Custom}",
        "{name: Custom, planner: Best}",
        "12: service_offerings[1].planner: must be one of FirstFitPlanner",
    ),
    (
        "{name: Custom}",
        "{name: Custom, host_tags: ['a,b']}",
        "12: service_offerings[1].host_tags[0]: must be a tag",
    ),
    (
        "{name: Custom}",
        "{name: Custom, host_tags: [a, a]}",
        "12: service_offerings[1].host_tags[1]: is in the list already",
    ),
    ("{name: Custom}", "{name: Custom, host_tags: a}", "12: service_offerings[1].host_tags: must be a list"),
    (
        "templates:\n",
        "disk_offerings: [{name: d}]\ntemplates:\n",
        "13: disk_offerings[0].disk: either disk gives the size, or custom is true",
    ),
    (
        TEMPLATE,
        "{name: Debian, size: 2 GiB}",
        "14: templates[0]: key 'format' is missing: a template must have one",
    ),
    (
        "templates:\n",
        "isos: [{name: i, size: 1 GiB, hypervisor: KVM}]\ntemplates:\n",
        "13: isos[0].hypervisor: ISOs have none: the caller names one",
    ),
    # networks
    (
        RANGES,
        "ranges: [{start: 10.1.0.20, end: 10.1.0.10}]",
        "16: networks[0].ranges[0].end: must not be below start",
    ),
    (
        RANGES,
        "ranges: [{start: 10.1.0.10, end: 10.2.0.20}]",
        "16: networks[0].ranges[0].end: must be an address of the gateway's network: 10.1.0.1 to 10.1.0.254",
    ),
    (
        RANGES,
        "ranges: [{start: 10.1.0.10, end: 10.1.0.20}, {start: 10.1.0.20, end: 10.1.0.30}]",
        "16: networks[0].ranges[1]: the range overlaps that of line 16",
    ),
    (
        "gateway: 10.1.0.1",
        "gateway: 10.9.0.1",
        "16: networks[0].gateway: must be an address of the network 10.1.0.0/24",
    ),
    (
        ", gateway: 10.1.0.1",
        "",
        "16: networks[0].ranges[0].gateway: must be given here where the network gives none",
    ),
]


@pytest.mark.parametrize(("old", "new", "problem"), BROKEN, ids=range(len(BROKEN)))
def test_a_broken_rule_of_what_is_offered_is_told_with_line_key_and_rule(old: str, new: str, problem: str) -> None:
    """A mistake is told with file, line, key and rule."""
    assert_refused(old, new, problem)
