"""Finds the plan of a model by timing whole models by turns."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tunefarm.model.library.library import LIBRARIES, installed_libraries
from tunefarm.model.messages import UnitParts
from tunefarm.model.race.contestant import Contestant
from tunefarm.model.race.messages import Assignment, RegionParts
from tunefarm.model.race.plan_folder import LibraryPlan, PlanFolders
from tunefarm.model.race.proposals import Times, proposals, unit_times
from tunefarm.model.race.turns import is_clear, is_faster
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import JsonValue
from tunefarm_workers.builder.sealed_library import sealed

DEFAULT_RACE_S: Final = 15.0
TURNS: Final = 7


@dataclass(frozen=True)
class TimedPlan:
    """A plan and the seconds of one run; None if it could not run, with the reason."""

    plan: LibraryPlan
    latency_s: float | None
    problem: str = ""


@dataclass(frozen=True)
class RaceResult:
    """What a race came to.

    Attributes:
        winner: the plan to ship.
        timed: our kernels first, then all other plans in the order in which they were tried.
        took_s: seconds.
    """

    winner: TimedPlan
    timed: tuple[TimedPlan, ...]
    took_s: float

    @property
    def gain(self) -> float:
        """How many times as fast the winner is as our kernels alone."""
        ours_s, winner_s = self.timed[0].latency_s, self.winner.latency_s
        return ours_s / winner_s if ours_s and winner_s else 1.0

    def figures(self) -> dict[str, JsonValue]:
        """What ``--json`` prints of it."""
        return {
            "winner": self.winner.plan.name,
            "gain": self.gain,
            "took_s": self.took_s,
            "plans": [
                {"plan": each.plan.name, "latency_s": each.latency_s, "problem": each.problem} for each in self.timed
            ],
        }


@dataclass(frozen=True)
class LibraryChoice:
    """Which libraries may run parts of a model, and how long the race may last, in seconds."""

    names: tuple[str, ...]
    race_s: float = DEFAULT_RACE_S


def choose_libraries(names: Sequence[str] = (), race_s: float = DEFAULT_RACE_S) -> LibraryChoice:
    """The named libraries, or all that are installed.

    Raises:
        BadInput: a library is unknown or not installed, none is installed, or ``race_s`` is negative.
    """
    installed = installed_libraries()
    for name in names:
        if name not in LIBRARIES:
            raise BadInput("library", f"{name!r} is unknown.", f"Name one of: {', '.join(LIBRARIES)}.")
        if name not in installed:
            raise BadInput("library", f"{name} is not installed.", f"Run: pip install {name}")
    fix = "Run: pip install 'tunefarm[libraries]', or compile it with --no-libraries."
    if not installed:
        raise BadInput("libraries", f"none of {', '.join(LIBRARIES)} is installed.", fix)
    if find_spec("onnx") is None:
        raise BadInput("libraries", "onnx, which parts of models are written with, is not installed.", fix)
    if not 0 <= race_s < float("inf"):
        raise BadInput("race-seconds", f"is {race_s:g}.", "Give a number of seconds, such as 15.")
    return LibraryChoice(tuple(dict.fromkeys(names)) or installed, race_s)


class LibraryRace:
    """One race. ``run`` times our kernels, then each library with all that it can run, then mixes."""

    def __init__(
        self,
        zygote: ForkServer,
        folders: PlanFolders,
        units: Sequence[UnitParts],
        choice: LibraryChoice,
        *,
        library: bytes,
        callees: Sequence[str] = (),
        functions_file: Path | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``library`` are our kernels, which have been checked; ``callees`` the external functions of the model."""
        self._zygote = zygote
        self._folders = folders
        self._units = units
        self._choice = choice
        self._library = library
        self._callees = tuple(callees)
        self._functions_file = functions_file
        self._say = say
        self._timed: list[TimedPlan] = []

    def run(self) -> RaceResult:
        """Race until the time is over; a plan that runs then finishes its turns.

        Our kernels and each library with all that it can run are always timed.

        Raises:
            BadInput: the model does not run with our kernels.
        """
        began_s = time.monotonic()
        self._ends_s = began_s + self._choice.race_s
        ours = LibraryPlan((None,) * len(self._units))
        with ExitStack() as stack:
            self._descriptor = sealed(self._library)
            stack.callback(os.close, self._descriptor)
            best = self._opened(ours)
            try:
                self._keep(ours, [best.sample_s() for _ in range(3)])
                best = self._improved(best)
                winner = TimedPlan(best.plan, self._latest_s(best.plan))
            finally:
                best.__exit__(None, None, None)
        return RaceResult(winner, tuple(self._timed), time.monotonic() - began_s)

    def _improved(self, best: Contestant) -> Contestant:
        for library in self._choice.names:
            assignment = tuple(None if unit.problem else library for unit in self._units)
            if any(assignment):
                best = self._duel(best, LibraryPlan(assignment, spins=self._is_whole(assignment)))
        times_s: dict[str | None, Times] = {}
        by_speed = sorted(self._choice.names, key=self._latency_of_all_s)
        for used in (None, *by_speed):
            # Opening each function by itself takes long: the library that is slower as a whole may go without.
            if self._time_left_s() > (self._choice.race_s / 2 if times_s.keys() - {None} else 0):
                times_s |= self._profiled(used)
        tried: set[Assignment] = {each.plan.assignment for each in self._timed}
        while self._has_time():
            plans = [each for each in proposals(best.plan.assignment, times_s) if each not in tried]
            if not plans:
                break
            tried.add(plans[0])
            best = self._duel(best, LibraryPlan(plans[0], spins=self._is_whole(plans[0])))
        if best.plan.can_spin and self._has_time():
            best = self._duel(best, LibraryPlan(best.plan.assignment, spins=not best.plan.spins))
        return best

    def _has_time(self) -> bool:
        return self._time_left_s() > 0

    def _time_left_s(self) -> float:
        return self._ends_s - time.monotonic()

    def _latency_of_all_s(self, library: str) -> float:
        """Seconds of a run in which a library runs all that it can."""
        own = (each.latency_s for each in self._timed if each.plan.libraries == (library,))
        return next((latency_s for latency_s in own if latency_s is not None), float("inf"))

    def _is_whole(self, assignment: Assignment) -> bool:
        """Whether one region is the whole model: then nothing else wants the cores between its operators."""
        used = {library for unit, library in zip(self._units, assignment, strict=True) if unit.functions}
        return None not in used and len(used) == 1

    def _opened(self, plan: LibraryPlan, *, by_unit: bool = False) -> Contestant:
        contestant, _ = self._opened_with_regions(plan, by_unit=by_unit)
        return contestant

    def _opened_with_regions(self, plan: LibraryPlan, *, by_unit: bool) -> tuple[Contestant, tuple[RegionParts, ...]]:
        planned = self._folders.planned(plan, by_unit=by_unit)
        folder = self._folders.written(plan, planned)
        contestant = Contestant(self._zygote, plan, folder, self._descriptor, self._callees, self._functions_file)
        return contestant, planned.parts.regions

    def _duel(self, best: Contestant, plan: LibraryPlan) -> Contestant:
        """The faster of the best plan and another, which is opened for it; the slower one is closed."""
        self._say(f"timing {plan.name}")
        try:
            challenger = self._opened(plan)
        except BadInput as error:
            self._timed.append(TimedPlan(plan, None, str(error)))
            return best
        best_s: list[float] = []
        challenger_s: list[float] = []
        while len(best_s) < TURNS and not is_clear(challenger_s, best_s):
            try:
                challenger_s.append(challenger.sample_s())
            except BadInput as error:
                challenger.__exit__(None, None, None)
                self._timed.append(TimedPlan(plan, None, str(error)))
                return best
            best_s.append(best.sample_s())
        self._keep(best.plan, best_s)
        self._keep(plan, challenger_s)
        loser, winner = (best, challenger) if is_faster(challenger_s, best_s) else (challenger, best)
        loser.__exit__(None, None, None)
        return winner

    def _keep(self, plan: LibraryPlan, samples_s: Sequence[float]) -> None:
        """Remember the fastest sample of a plan; load only adds time."""
        known = [each for each in self._timed if each.plan == plan]
        fastest_s = min([*samples_s, *(each.latency_s for each in known if each.latency_s is not None)])
        kept = TimedPlan(plan, fastest_s)
        self._timed = [kept if each.plan == plan else each for each in self._timed]
        if not known:
            self._timed.append(kept)

    def _latest_s(self, plan: LibraryPlan) -> float | None:
        return next(each.latency_s for each in self._timed if each.plan == plan)

    def _profiled(self, library: str | None) -> dict[str | None, Times]:
        """The time of each unit by itself, of our kernels or of a library; nothing if the library cannot run them."""
        self._say(f"timing each function by {library or 'our kernels'}")
        plan = LibraryPlan(tuple(None if unit.problem else library for unit in self._units))
        try:
            contestant, regions = self._opened_with_regions(plan, by_unit=True)
            with contestant:
                return {library: unit_times(self._units, library, regions, contestant.profile_s())}
        except BadInput:
            return {}
