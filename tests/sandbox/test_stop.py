import mmap
import os
import signal
import struct
import time

from tests.sandbox.forking import LONG_S, ended, fork, is_running, within
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.fork_server.fork_server import Child, ForkServer


class Counter:
    """Memory in which a child counts, which shows whether it runs."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("counter")
        os.ftruncate(self.descriptor, 8)
        self._memory = mmap.mmap(self.descriptor, 8)

    def value(self) -> int:
        return int(struct.unpack("=Q", self._memory[:8])[0])

    def moves(self) -> bool:
        before = self.value()
        return within(LONG_S, lambda: self.value() != before)

    def stands_still(self) -> bool:
        """Whether the counter stops, however late the signal arrives, and then stays unchanged for a while."""
        return within(LONG_S, self._is_still)

    def _is_still(self) -> bool:
        before = self.value()
        time.sleep(0.1)
        return self.value() == before

    def close(self) -> None:
        self._memory.close()
        os.close(self.descriptor)


def counting(server: ForkServer) -> tuple[Child, Counter]:
    counter = Counter()
    child = fork(server, "count_endlessly", descriptors=[counter.descriptor])
    assert counter.moves()
    return child, counter


def test_stopped_child_does_not_run_until_it_is_resumed(server: ForkServer) -> None:
    child, counter = counting(server)
    for _ in range(2):
        child.stop()
        assert counter.stands_still()
        child.resume()
        assert counter.moves()
    child.close()
    counter.close()


def test_stopped_child_can_be_killed(server: ForkServer) -> None:
    child, counter = counting(server)
    child.stop()
    child.kill()
    assert ended(child).described() == "killed by SIGKILL"
    assert not is_running(child.pid)
    counter.close()


def test_group_signals_work_without_the_pidfd_flag(server: ForkServer) -> None:
    child, counter = counting(server)
    child._signal_without_group_flag(signal.SIGSTOP)
    assert counter.stands_still()
    child._signal_without_group_flag(signal.SIGKILL)
    assert ended(child).described() == "killed by SIGKILL"
    counter.close()


def test_stopping_server_stops_its_children(server: ForkServer) -> None:
    parent = fork(server, "parent", confinement=Confinement.fork_server())
    first, first_counter = counting(ForkServer.within(parent))
    second, second_counter = counting(ForkServer.within(parent))
    parent.stop()
    assert first_counter.stands_still()
    assert second_counter.stands_still()
    parent.resume()
    first.stop()
    assert first_counter.stands_still()
    assert second_counter.moves()
    parent.kill()
    assert ended(parent).described() == "killed by SIGKILL"
    assert [ended(child).described() for child in (first, second)] == ["killed by SIGKILL"] * 2
    assert within(LONG_S, lambda: not is_running(first.pid) and not is_running(second.pid))
    first_counter.close()
    second_counter.close()


def test_stop_and_resume_are_fast_and_safe_after_exit(server: ForkServer) -> None:
    child = fork(server, "wait")
    assert child.channel.receive(LONG_S) == b"waiting"
    costs_s = []
    for _ in range(100):
        began_s = time.perf_counter()
        child.stop()
        costs_s.append(time.perf_counter() - began_s)
        child.resume()
    # Other processes may use the processor meanwhile, but not during each of a hundred attempts.
    assert min(costs_s) < 50e-6
    child.kill()
    ended(child)
    child.stop()
    child.resume()
    child.kill()
