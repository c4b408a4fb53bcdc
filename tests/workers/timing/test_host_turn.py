"""Processes of a host take turns at measuring, even if one dies or hangs."""

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from tunefarm_workers.timing import host_turn
from tunefarm_workers.timing.host_turn import FILE_NAME, HostTurn

LONG_S = 60.0
TURN_S = 30.0
HOLDER = """
import sys, time
from pathlib import Path
from tunefarm_workers.timing.host_turn import HostTurn
turn = HostTurn([0, 1], folders=[Path(sys.argv[1])])
assert turn.take(float(sys.argv[2]))
print("held", flush=True)
time.sleep(600)
"""


def becomes(condition: Callable[[], object]) -> bool:
    deadline_s = time.monotonic() + LONG_S
    while time.monotonic() < deadline_s:
        if condition():
            return True
        time.sleep(0.002)
    return False


def turn_on(folder: Path, *cores: int) -> HostTurn:
    return HostTurn(cores or (0, 1), folders=[folder])


@contextmanager
def holder(folder: Path, turn_s: float = TURN_S) -> Iterator["subprocess.Popen[str]"]:
    """Another process in its turn."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), str(turn_s)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_turn_is_taken_in_named_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(host_turn.FOLDER_VARIABLE, str(tmp_path))
    with holder(tmp_path):
        assert not HostTurn([0, 1]).take(TURN_S)


def test_only_one_process_has_the_turn(tmp_path: Path) -> None:
    first, second = turn_on(tmp_path), turn_on(tmp_path)
    assert first.take(TURN_S)
    assert not second.take(TURN_S)
    assert second.waits
    assert second.others_measure(time.monotonic())
    assert becomes(lambda: first.is_wanted)
    first.give_back()
    assert becomes(lambda: second.take(TURN_S))
    assert not first.take(TURN_S)
    second.give_back()
    assert becomes(lambda: first.take(TURN_S))


def test_next_in_line_goes_before_those_that_ask_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_turn, "GRACE_S", LONG_S)  # on a busy host, a thread may run seconds after it has the lock
    turns = [turn_on(tmp_path) for _ in range(3)]
    assert turns[0].take(TURN_S)
    for number, asking in enumerate(turns[1:], start=1):
        assert not asking.take(TURN_S)
        assert becomes(lambda number=number: _waits_for_locks(tmp_path / FILE_NAME) == number)
    turns[0].give_back()
    assert becomes(partial(turns[1].take, TURN_S))
    assert becomes(lambda: turns[1].is_wanted)
    assert not turns[0].take(TURN_S)
    assert becomes(lambda: _waits_for_locks(tmp_path / FILE_NAME) == len(turns) - 1)
    turns[1].give_back()
    assert becomes(partial(turns[2].take, TURN_S))
    assert not turns[0].take(TURN_S)
    turns[2].give_back()
    assert becomes(partial(turns[0].take, TURN_S))


def test_every_process_that_waits_gets_a_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_turn, "GRACE_S", LONG_S)
    turns = [turn_on(tmp_path) for _ in range(5)]
    served: list[HostTurn] = []

    def serve() -> bool:
        """Serve the processes that have a turn; each asks again at once."""
        for turn in turns:
            if turn.take(TURN_S):
                served.append(turn)
                turn.give_back()
        return set(served) == set(turns)

    assert becomes(serve)


def _waits_for_locks(path: Path) -> int:
    """How many threads of any process wait in the kernel for a lock on this file."""
    this_file = f":{path.stat().st_ino} "
    return sum("->" in line and this_file in line for line in Path("/proc/locks").read_text().splitlines())


def test_lanes_on_different_cores_do_not_wait(tmp_path: Path) -> None:
    lane, other, whole = turn_on(tmp_path, 0, 1), turn_on(tmp_path, 2, 3), turn_on(tmp_path, 0, 1, 2, 3)
    assert lane.take(TURN_S)
    assert other.take(TURN_S)
    assert not other.others_measure(time.monotonic())
    assert not whole.take(TURN_S)
    lane.give_back()
    other.give_back()
    assert becomes(lambda: whole.take(TURN_S)), "it has all of its cores at once"


def test_cores_between_those_of_another_lane_are_free(tmp_path: Path) -> None:
    outer, inner, same = turn_on(tmp_path, 0, 4), turn_on(tmp_path, 1, 2, 3), turn_on(tmp_path, 4, 5)
    assert outer.take(TURN_S)
    assert inner.take(TURN_S)
    assert not same.take(TURN_S)


def test_process_that_dies_frees_its_turn(tmp_path: Path) -> None:
    waiting = turn_on(tmp_path)
    with holder(tmp_path) as process:
        assert not waiting.take(TURN_S)
        process.kill()
        assert becomes(lambda: waiting.take(TURN_S))
    assert not waiting.others_measure(time.monotonic())


def test_hung_process_loses_its_turn_after_grace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_turn, "GRACE_S", 0.1)
    waiting = turn_on(tmp_path)
    with holder(tmp_path, turn_s=0.3) as process:
        os.kill(process.pid, signal.SIGSTOP)
        assert becomes(lambda: waiting.take(TURN_S))
        began_s = time.monotonic()
        waiting.give_back()
        assert waiting.take(TURN_S), "nor is it waited for the next time"
        assert not waiting.others_measure(began_s)
        waiting.give_back()
        process.kill()
        assert becomes(lambda: not waiting.is_wanted and _is_held_by(waiting, turn_on(tmp_path)))


def _is_held_by(waiting: HostTurn, third: HostTurn) -> bool:
    """Whether ``waiting`` takes turns again, so that another one sees it measure."""
    assert waiting.take(TURN_S)
    seen = third.others_measure(time.monotonic())
    waiting.give_back()
    third.close()
    return seen


def test_process_that_looks_seldom_still_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_turn, "GRACE_S", 0.2)
    first, second = turn_on(tmp_path), turn_on(tmp_path)
    assert first.take(0.001)
    assert not second.take(TURN_S)
    time.sleep(0.25)  # the first exceeds its turn meanwhile, and nobody looks
    assert not second.take(TURN_S)
    assert first.take(TURN_S)
    time.sleep(0.25)
    assert not second.take(TURN_S)


def test_closed_claim_blocks_nobody(tmp_path: Path) -> None:
    first, given_up, third = turn_on(tmp_path), turn_on(tmp_path), turn_on(tmp_path)
    assert first.take(TURN_S)
    assert not given_up.take(TURN_S)
    given_up.close()
    assert not third.take(TURN_S)
    first.give_back()
    assert becomes(lambda: third.take(TURN_S))


def test_unwanted_turn_is_given_back(tmp_path: Path) -> None:
    came: list[bool] = []
    first, second, third = turn_on(tmp_path), HostTurn([0, 1], lambda: came.append(True), [tmp_path]), turn_on(tmp_path)
    assert first.take(TURN_S)
    assert not second.take(TURN_S)
    first.give_back()
    assert becomes(lambda: came)
    assert not third.take(TURN_S)
    second.give_back()
    assert becomes(lambda: third.take(TURN_S))


def test_lock_file_is_shared_and_never_written(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        turn = turn_on(tmp_path)
    finally:
        os.umask(before)
    with turn.held(TURN_S):
        pass
    found = (tmp_path / FILE_NAME).stat()
    assert stat.S_IMODE(found.st_mode) == 0o666
    assert found.st_size == 0


@pytest.mark.parametrize("planted", ["link", "pipe", "folder", "nowhere"])
def test_planted_lock_file_is_not_followed(tmp_path: Path, planted: str) -> None:
    path, target = tmp_path / FILE_NAME, tmp_path / "target"
    if planted == "link":
        path.symlink_to(target)
    elif planted == "pipe":
        os.mkfifo(path)
    elif planted == "folder":
        path.mkdir()
    folder = tmp_path / "missing" if planted == "nowhere" else tmp_path
    turn = HostTurn([0], folders=[folder])
    assert turn.take(TURN_S)
    assert not turn.is_wanted
    assert not turn.others_measure(time.monotonic())
    turn.give_back()
    turn.close()
    assert not target.exists()


def test_next_folder_is_used_if_the_first_is_unusable(tmp_path: Path) -> None:
    folders = [tmp_path / "missing", tmp_path]
    first, second = HostTurn([0], folders=folders), HostTurn([0], folders=folders)
    assert first.take(TURN_S)
    assert not second.take(TURN_S)


def test_removed_lock_file_is_shared_again(tmp_path: Path) -> None:
    first = turn_on(tmp_path)
    (tmp_path / FILE_NAME).unlink()
    second = turn_on(tmp_path)
    assert first.has_neighbours(time.monotonic() + 1.0)
    assert first.take(TURN_S)
    assert not second.take(TURN_S)


def test_all_processes_use_the_same_lock_file() -> None:
    core = 1024 + os.getpid() % 2048  # no host of a test has it, and another run of this test uses another one
    with ExitStack() as stack:
        turns = [HostTurn([core]), HostTurn([core])]
        for turn in turns:
            stack.callback(turn.close)
        assert turns[0].take(TURN_S)
        assert not turns[1].take(TURN_S)
