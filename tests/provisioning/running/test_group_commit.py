"""Group commit: everything that was put in is written once, in order, in batches as large as the load."""

from collections.abc import Sequence
from threading import Event, Thread

from bulkdeploy.provisioning.running.group_commit import GroupCommit
from tests.support.runs.waiting import PATIENCE_S


class Log:
    """Notes batches; the first one waits for the gate."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.entered, self.gate = Event(), Event()

    def write(self, batch: Sequence[int]) -> None:
        """Note a batch."""
        self.batches.append(list(batch))
        self.entered.set()
        assert self.gate.wait(PATIENCE_S)


def test_what_gathers_is_one_batch() -> None:
    """What is put in while a batch is written is the next batch, in order."""
    log = Log()
    commits = GroupCommit(log.write, name="test")
    commits.put(0)
    assert log.entered.wait(PATIENCE_S)
    for number in range(1, 10):
        commits.put(number)
    log.gate.set()
    commits.close()
    assert log.batches == [[0], list(range(1, 10))]


def test_a_single_entry_is_written_at_once() -> None:
    """One entry is written at once, though nothing else comes."""
    log = Log()
    log.gate.set()
    commits = GroupCommit(log.write, name="test")
    commits.put(7)
    assert log.entered.wait(PATIENCE_S)
    assert log.batches == [[7]]
    commits.close()


def test_light_load_is_gathered() -> None:
    """Entries that come within the pace after a batch are one batch together."""
    log = Log()
    log.gate.set()
    commits = GroupCommit(log.write, pace_s=1.0, name="test")
    for number in range(4):
        commits.put(number)
        assert log.entered.wait(PATIENCE_S)
    commits.close()
    assert log.batches == [[0], [1, 2, 3]]


def test_enough_is_not_kept_waiting() -> None:
    """When enough entries wait they are written, however slow the pace."""
    log = Log()
    log.gate.set()
    commits = GroupCommit(log.write, pace_s=10 * PATIENCE_S, enough=5, name="test")
    commits.put(0)
    assert log.entered.wait(PATIENCE_S)
    log.entered.clear()
    for number in range(1, 6):
        commits.put(number)
    assert log.entered.wait(PATIENCE_S)
    assert log.batches == [[0], [1, 2, 3, 4, 5]]


def test_batches_have_a_limit() -> None:
    """A flood is written in batches of the largest size, nothing lost and nothing twice."""
    log = Log()
    commits = GroupCommit(log.write, largest=10, name="test")
    commits.put(0)
    assert log.entered.wait(PATIENCE_S)
    for number in range(1, 35):
        commits.put(number)
    log.gate.set()
    commits.close()
    assert [len(batch) for batch in log.batches] == [1, 10, 10, 10, 4]
    assert [number for batch in log.batches for number in batch] == list(range(35))


def test_many_threads_may_put() -> None:
    """Entries of many threads are all written, each thread's in its order."""
    log = Log()
    log.gate.set()
    commits: GroupCommit[int] = GroupCommit(log.write, name="test")

    def put_all(thread: int) -> None:
        for number in range(100):
            commits.put(thread * 1000 + number)

    threads = [Thread(target=put_all, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    commits.close()
    written = [number for batch in log.batches for number in batch]
    for writer in range(8):
        own = [number % 1000 for number in written if number // 1000 == writer]
        assert own == list(range(100))
