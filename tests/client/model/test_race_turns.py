"""When one plan of a race replaces another, how long they are timed, and while who has the device."""

import itertools
import math
import os
import random
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from tests.client.model.conftest import CompiledOnce
from tunefarm.model.model_folder import LIBRARY_NAME
from tunefarm.model.race.contestant import Contestant
from tunefarm.model.race.plan_folder import LibraryPlan
from tunefarm.model.race.race_clock import RaceClock
from tunefarm.model.race.turns import is_better, is_decided, ratios_by_turns
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_workers.builder.sealed_library import sealed
from tunefarm_workers.timing.host_turn import FOLDER_VARIABLE, HostTurn


class ScriptedClock:
    """A clock that only given times advance."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.order: list[str] = []


class ScriptedPlan:
    """A plan whose turns have the given times."""

    def __init__(self, scripted: ScriptedClock, name: str, times_s: Iterable[float]) -> None:
        self._clock, self._name, self._times_s = scripted, name, iter(times_s)
        self.first_s = next(self._times_s)
        scripted.now_s += self.first_s

    def sample_s(self) -> float:
        self._clock.order.append(self._name)
        taken_s = next(self._times_s)
        self._clock.now_s += taken_s
        return taken_s


def clock_of(scripted: ScriptedClock, race_s: float) -> RaceClock:
    return RaceClock(race_s, lambda: scripted.now_s, lambda _: nullcontext())


def test_a_plan_replaces_another_if_the_interval_shows_that_it_is_faster() -> None:
    assert is_better([0.9] * 5, has_fewer_libraries=False)
    assert is_better([0.8, 0.9, 0.85, 0.8, 3.0, 0.8, 0.9, 0.8, 0.85, 0.9, 0.8], has_fewer_libraries=False)
    assert not is_better([0.7, 1.3, 0.95, 1.2, 0.6], has_fewer_libraries=False)
    assert not is_better([1.1] * 5, has_fewer_libraries=True)
    assert not is_better([], has_fewer_libraries=True)


@pytest.mark.parametrize("ratios", [[1.0] * 5, [0.995, 1.0, 0.998, 1.004, 0.996], [0.9, 1.2, 1.0, 0.8, 1.1]])
def test_ties_go_to_the_plan_with_fewer_libraries(ratios: list[float]) -> None:
    assert is_better(ratios, has_fewer_libraries=True)
    assert not is_better(ratios, has_fewer_libraries=False)


def test_turns_end_when_they_decide() -> None:
    assert is_decided([0.8, 0.7, 0.8])
    assert is_decided([1.2, 1.7, 1.3])
    assert is_decided([0.96, 0.95, 0.97, 0.96, 0.95])
    assert is_decided([1.001, 0.999, 1.0, 1.002, 0.998])
    assert not is_decided([0.8, 0.7])
    assert not is_decided([0.95, 0.96, 0.95])
    assert not is_decided([0.9, 1.2, 1.0, 0.8, 1.1])
    assert not is_decided([])


def test_a_few_lucky_turns_do_not_decide() -> None:
    """The median of seven turns of these favors the challenger, which is slower in all later ones."""
    scripted = ScriptedClock()
    lucky = [0.97, 1.05, 0.97, 0.96, 1.04, 0.97, 0.98]
    challenger = ScriptedPlan(scripted, "challenger", [1.0, *lucky, *[1.05] * 100])
    best = ScriptedPlan(scripted, "best", itertools.repeat(1.0))
    ratios, failure = ratios_by_turns(challenger, best, clock_of(scripted, 1000.0), 1.0)
    assert failure is None
    assert sorted(ratios[:7])[3] < 1
    assert 7 < len(ratios) < 50
    assert not is_better(ratios, has_fewer_libraries=False)


@pytest.mark.parametrize(("ratio", "wins"), [(0.95, range(12, 13)), (1.0, range(4)), (1.03, range(1))])
@pytest.mark.quick_cases(1)
def test_turns_that_scatter_by_three_percent_seldom_err(ratio: float, wins: range) -> None:
    generator = random.Random(3)
    won = 0
    for _ in range(12):
        scripted = ScriptedClock()
        times_s = (ratio * math.exp(generator.gauss(0, 0.03)) for _ in itertools.count())
        best = ScriptedPlan(scripted, "best", itertools.repeat(1.0))
        challenger = ScriptedPlan(scripted, "challenger", times_s)
        ratios, _ = ratios_by_turns(challenger, best, clock_of(scripted, 100.0), 1.0)
        won += is_better(ratios, has_fewer_libraries=False)
    assert won in wins


def test_turns_alternate_and_end_with_the_share_of_the_seconds() -> None:
    scripted = ScriptedClock()
    clock = clock_of(scripted, 100.0)
    challenger = ScriptedPlan(scripted, "challenger", itertools.cycle([1.0, 0.5, 2.0]))
    best = ScriptedPlan(scripted, "best", itertools.repeat(1.0))
    began_s = scripted.now_s
    ratios, _ = ratios_by_turns(challenger, best, clock, 0.25)
    assert scripted.order[:4] == ["challenger", "best", "best", "challenger"]
    assert not is_decided(ratios)
    assert 15 <= scripted.now_s - began_s <= 25


def test_slow_plans_stay_within_the_seconds() -> None:
    """One turn is taken although it exceeds its share; none is if it does not fit into the seconds that are left."""
    for race_s, turns in ((25.0, 1), (20.0, 0)):
        scripted = ScriptedClock()
        clock = clock_of(scripted, race_s)
        best = ScriptedPlan(scripted, "best", itertools.repeat(10.0))
        challenger = ScriptedPlan(scripted, "challenger", itertools.repeat(2.0))
        ratios, _ = ratios_by_turns(challenger, best, clock, 0.2)
        assert len(scripted.order) == 2 * turns
        assert scripted.now_s <= race_s
        assert ratios == [0.2]  # without a turn, the runs when both were opened
        assert is_better(ratios, has_fewer_libraries=False)


def test_a_single_run_decides_only_large_differences() -> None:
    assert not is_better([0.95], has_fewer_libraries=False)
    assert is_better([0.8], has_fewer_libraries=False)


def test_a_challenger_that_fails_is_reported_with_its_error() -> None:
    class Failing:
        first_s = 1.0

        def sample_s(self) -> float:
            raise BadInput("library", "it refuses.", "Omit it.")

    scripted = ScriptedClock()
    best = ScriptedPlan(scripted, "best", itertools.repeat(1.0))
    ratios, failure = ratios_by_turns(Failing(), best, clock_of(scripted, 100.0), 1.0)
    assert ratios == []
    assert failure is not None
    assert "it refuses" in str(failure)


def test_waiting_for_other_processes_takes_no_seconds_of_the_race() -> None:
    scripted = ScriptedClock()

    @contextmanager
    def waiting(_: float) -> Iterator[None]:
        scripted.now_s += 50.0
        yield
        scripted.now_s += 1.0

    clock = RaceClock(10.0, lambda: scripted.now_s, waiting)
    with clock.own_turn():
        assert clock.left_s() == 10.0
    assert clock.left_s() == 9.0


def test_plans_are_timed_while_this_process_has_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    neighbour = HostTurn(os.sched_getaffinity(0))

    class Watching:
        first_s = 0.0
        was_held: list[bool] = []  # noqa: RUF012

        def sample_s(self) -> float:
            self.was_held.append(neighbour.others_measure(time.monotonic()))
            return 1.0

    try:
        ratios, _ = ratios_by_turns(Watching(), Watching(), RaceClock(60.0), 1.0)
    finally:
        neighbour.close()
    assert ratios == [1.0] * 5
    assert Watching.was_held == [True] * 10


def test_each_entry_is_timed_and_a_turn_is_their_sum(with_entries: CompiledOnce, fork_server: ForkServer) -> None:
    library = sealed((with_entries.folder / LIBRARY_NAME).read_bytes())
    try:
        with Contestant(fork_server, LibraryPlan((None,)), with_entries.folder, library, (), None) as contestant:
            assert len(contestant.entries_s) == len(with_entries.compilation.manifest.entries) == 2
            assert contestant.first_s == sum(contestant.entries_s)
            samples_s = [contestant.sample_s() for _ in range(3)]
            assert all(each > 0 for each in contestant.entries_s)
            assert sum(contestant.entries_s) <= min(samples_s)
            called = contestant.profile_s(60.0)
    finally:
        os.close(library)
    assert {each.name for each in with_entries.compilation.manifest.functions} <= called.keys()


def test_a_plan_whose_child_has_ended_is_opened_again(with_entries: CompiledOnce, fork_server: ForkServer) -> None:
    library = sealed((with_entries.folder / LIBRARY_NAME).read_bytes())
    try:
        with Contestant(fork_server, LibraryPlan((None,)), with_entries.folder, library, (), None) as contestant:
            for _ in range(2):
                contestant._child.kill()
                assert contestant.sample_s() > 0
    finally:
        os.close(library)


def test_a_plan_that_is_not_opened_in_time_is_refused(
    with_entries: CompiledOnce, fork_server: ForkServer, tmp_path: Path
) -> None:
    functions = tmp_path / "functions.py"
    functions.write_text("import time\ntime.sleep(1000)\n")
    library = sealed((with_entries.folder / LIBRARY_NAME).read_bytes())
    try:
        with pytest.raises(BadInput, match="was running for"):
            Contestant(fork_server, LibraryPlan((None,)), with_entries.folder, library, (), functions, timeout_s=0.1)
    finally:
        os.close(library)
