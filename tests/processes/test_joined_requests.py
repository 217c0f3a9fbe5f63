"""Requests of many threads are each served exactly once, and none is forgotten, whatever becomes of the others."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.processes.joined_requests import JoinedRequests, Unserved
from tests.support.processes.deaths import Died
from tests.support.runs.waiting import PATIENCE_S


@given(
    keys=st.lists(st.integers(0, 5), min_size=1, max_size=40),
    largest=st.integers(1, 10),
    patience_s=st.sampled_from([None, 0.0, 0.001]),
    pauses_ms=st.lists(st.floats(0, 1), min_size=40, max_size=40),
)
def test_each_request_is_served_once(
    keys: list[int], largest: int, patience_s: float | None, pauses_ms: list[float]
) -> None:
    """Each caller gets the result of its own request; no batch is too large or has two requests of one key."""
    batches = list[list[tuple[int, int]]]()

    def serve(requests: Sequence[tuple[int, int]]) -> Sequence[int]:
        batches.append(list(requests))
        Event().wait(pauses_ms[len(batches) - 1] / 1000)
        return [number * number for number, _ in requests]

    joined = JoinedRequests(serve, largest=largest, key=lambda request: request[1], patience_s=patience_s)
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(joined.run, enumerate(keys)))
    assert results == [number * number for number in range(len(keys))]
    assert sorted(number for batch in batches for number, _ in batch) == list(range(len(keys)))
    assert all(len(batch) <= largest and len({key for _, key in batch}) == len(batch) for batch in batches)
    assert joined.waiting == 0


@pytest.mark.parametrize("end", [Died, ValueError])
def test_a_leader_that_ends_stalls_nobody(end: type[BaseException]) -> None:
    """The leader raises, those whose requests it took are told, and those that came later are served."""
    first_began, second_began, may_end = Event(), Event(), Event()

    def serve(requests: Sequence[int]) -> Sequence[int]:
        if 0 in requests:
            first_began.set()
            assert may_end.wait(PATIENCE_S)
        elif len(requests) > 1:
            second_began.set()
            raise end
        return requests

    joined = JoinedRequests(serve, largest=3)
    with ThreadPoolExecutor(8) as threads:
        first = threads.submit(joined.run, 0)
        assert first_began.wait(PATIENCE_S)
        others = [threads.submit(joined.run, number) for number in range(1, 5)]
        while joined.waiting < 4:
            Event().wait(0.001)
        may_end.set()
        assert first.result(PATIENCE_S) == 0
        errors = [each.exception(PATIENCE_S) for each in others]
    assert second_began.is_set()
    assert [type(error) for error in errors].count(end) == 1
    assert [type(error) for error in errors].count(Unserved) == 2
    assert errors.count(None) == 1
    assert joined.run(7) == 7


def test_a_request_that_another_thread_keeps_is_given_up() -> None:
    """A caller whose request was taken waits as long as it was told to, and no longer."""
    first_began, second_began, may_end = Event(), Event(), Event()

    def serve(requests: Sequence[int]) -> Sequence[int]:
        (first_began if 0 in requests else second_began).set()
        assert may_end.wait(PATIENCE_S)
        return requests

    joined = JoinedRequests(serve, largest=10, patience_s=0.2, longest_s=0.1)
    with ThreadPoolExecutor(8) as threads:
        stuck = threads.submit(joined.run, 0)
        assert first_began.wait(PATIENCE_S)
        others = [threads.submit(joined.run, number) for number in (1, 2)]
        assert second_began.wait(PATIENCE_S)
        while not any(each.done() for each in others) and joined.waiting:
            Event().wait(0.001)
        may_end.set()
        outcomes = [type(each.exception(PATIENCE_S)) for each in others]
        assert stuck.result(PATIENCE_S) == 0
    assert set(outcomes) <= {Unserved, type(None)}
