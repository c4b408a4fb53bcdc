"""Processes of one host take turns at measuring, in the order of asking, whoever dies or hangs."""

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

import psutil
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


def of(folder: Path, *cores: int) -> HostTurn:
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


def test_one_has_the_turn_at_a_time(tmp_path: Path) -> None:
    first, second = of(tmp_path), of(tmp_path)
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


def test_who_measured_last_waits_for_those_that_asked_meanwhile_in_the_order_of_asking(tmp_path: Path) -> None:
    turns = [of(tmp_path) for _ in range(4)]
    assert turns[0].take(TURN_S)
    for number, asking in enumerate(turns[1:], start=1):
        assert not asking.take(TURN_S)
        assert becomes(partial(_is_number_of_threads_that_wait, number))
    turns[0].give_back()
    for turn in turns[1:]:
        assert becomes(partial(turn.take, TURN_S))
        assert not turns[0].take(TURN_S)
        turn.give_back()
    assert becomes(partial(turns[0].take, TURN_S))


def _is_number_of_threads_that_wait(number: int) -> bool:
    """Whether so many threads of this process are blocked in the kernel over a lock."""
    return sum(_is_blocked_on_a_lock(thread.id) for thread in psutil.Process().threads()) == number


def _is_blocked_on_a_lock(thread: int) -> bool:
    try:
        return Path(f"/proc/self/task/{thread}/syscall").read_text().split()[2:3] == ["0x26"]  # F_OFD_SETLKW
    except OSError:
        return False


def test_lanes_on_different_cores_do_not_wait_for_each_other(tmp_path: Path) -> None:
    lane, other, whole = of(tmp_path, 0, 1), of(tmp_path, 2, 3), of(tmp_path, 0, 1, 2, 3)
    assert lane.take(TURN_S)
    assert other.take(TURN_S)
    assert not other.others_measure(time.monotonic())
    assert not whole.take(TURN_S)
    lane.give_back()
    other.give_back()
    assert becomes(lambda: whole.take(TURN_S)), "it has all of its cores at once"


def test_cores_between_those_of_another_lane_are_free(tmp_path: Path) -> None:
    outer, inner, same = of(tmp_path, 0, 4), of(tmp_path, 1, 2, 3), of(tmp_path, 4, 5)
    assert outer.take(TURN_S)
    assert inner.take(TURN_S)
    assert not same.take(TURN_S)


def test_a_process_that_dies_in_its_turn_frees_it(tmp_path: Path) -> None:
    waiting = of(tmp_path)
    with holder(tmp_path) as process:
        assert not waiting.take(TURN_S)
        process.kill()
        assert becomes(lambda: waiting.take(TURN_S))
    assert not waiting.others_measure(time.monotonic())


def test_a_process_that_hangs_is_waited_for_until_its_turn_is_long_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_turn, "GRACE_S", 0.2)
    waiting = of(tmp_path)
    with holder(tmp_path, turn_s=1.0) as process:
        os.kill(process.pid, signal.SIGSTOP)
        assert becomes(lambda: waiting.take(TURN_S))
        began_s = time.monotonic()
        waiting.give_back()
        assert waiting.take(TURN_S), "nor is it waited for the next time"
        assert not waiting.others_measure(began_s)
        waiting.give_back()
        process.kill()
        assert becomes(lambda: not waiting.is_wanted and _is_held_by(waiting, of(tmp_path)))


def _is_held_by(waiting: HostTurn, third: HostTurn) -> bool:
    """Whether ``waiting`` takes turns again, so that another one sees it measure."""
    assert waiting.take(TURN_S)
    seen = third.others_measure(time.monotonic())
    waiting.give_back()
    third.close()
    return seen


def test_a_claim_that_is_given_up_keeps_nobody_waiting(tmp_path: Path) -> None:
    first, given_up, third = of(tmp_path), of(tmp_path), of(tmp_path)
    assert first.take(TURN_S)
    assert not given_up.take(TURN_S)
    given_up.close()
    assert not third.take(TURN_S)
    first.give_back()
    assert becomes(lambda: third.take(TURN_S))


def test_a_turn_that_came_unwanted_is_given_back(tmp_path: Path) -> None:
    came: list[bool] = []
    first, second, third = of(tmp_path), HostTurn([0, 1], lambda: came.append(True), [tmp_path]), of(tmp_path)
    assert first.take(TURN_S)
    assert not second.take(TURN_S)
    first.give_back()
    assert becomes(lambda: came)
    assert not third.take(TURN_S)
    second.give_back()
    assert becomes(lambda: third.take(TURN_S))


def test_any_user_may_lock_the_file_and_nothing_is_ever_written_to_it(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        turn = of(tmp_path)
    finally:
        os.umask(before)
    with turn.held(TURN_S):
        pass
    found = (tmp_path / FILE_NAME).stat()
    assert stat.S_IMODE(found.st_mode) == 0o666
    assert found.st_size == 0


@pytest.mark.parametrize("planted", ["link", "pipe", "folder", "nowhere"])
def test_what_lies_in_the_files_place_is_neither_followed_nor_waited_for(tmp_path: Path, planted: str) -> None:
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


def test_the_next_folder_is_taken_where_the_first_cannot_be_used(tmp_path: Path) -> None:
    folders = [tmp_path / "missing", tmp_path]
    first, second = HostTurn([0], folders=folders), HostTurn([0], folders=folders)
    assert first.take(TURN_S)
    assert not second.take(TURN_S)


def test_a_file_that_somebody_removed_is_shared_again(tmp_path: Path) -> None:
    first = of(tmp_path)
    (tmp_path / FILE_NAME).unlink()
    second = of(tmp_path)
    assert first.has_neighbours(time.monotonic() + 1.0)
    assert first.take(TURN_S)
    assert not second.take(TURN_S)


def test_all_processes_look_in_the_same_places() -> None:
    with ExitStack() as stack:
        turns = [HostTurn([4000]), HostTurn([4000])]
        for turn in turns:
            stack.callback(turn.close)
        assert turns[0].take(TURN_S)
        assert not turns[1].take(TURN_S)
