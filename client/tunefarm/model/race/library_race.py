"""Finds the plan of a model by interleaved timing of whole models."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Final

from tunefarm.model.library.library import LIBRARIES, installed_libraries
from tunefarm.model.messages import UnitParts
from tunefarm.model.race.contestant import Contestant
from tunefarm.model.race.messages import Assignment, RegionParts
from tunefarm.model.race.plan_folder import OURS, LibraryPlan, PlanFolders
from tunefarm.model.race.proposals import Times, proposals, unit_times
from tunefarm.model.race.race_clock import RaceClock
from tunefarm.model.race.race_result import RacedUnit, RaceResult, TimedPlan
from tunefarm.model.race.turns import is_better, ratios_by_turns
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_workers.builder.sealed_library import sealed

DEFAULT_RACE_S: Final = 15.0
_SHARE: Final = 1 / 3
"""Part of the seconds left that one mix may be timed for."""

ResultCheck = Callable[[Path], str]
"""Runs the model in a folder, and returns what is wrong with its results; nothing if they are right."""


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
        fork_server: ForkServer,
        folders: PlanFolders,
        units: Sequence[UnitParts],
        choice: LibraryChoice,
        *,
        library: bytes,
        callees: Sequence[str] = (),
        functions_file: Path | None = None,
        check: ResultCheck = lambda _: "",
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``library`` are our kernels, which have been checked; ``callees`` the external functions of the model.

        A plan with libraries wins only if ``check`` finds nothing wrong with it.
        """
        self._fork_server = fork_server
        self._folders = folders
        self._units = units
        self._choice = choice
        self._library = library
        self._callees = tuple(callees)
        self._functions_file = functions_file
        self._check = check
        self._say = say
        self._timed: list[TimedPlan] = []
        self._wrong: set[str] = set()
        self._times_s: dict[str | None, Times] = {}

    def run(self) -> RaceResult:
        """Race until the time is over, or nothing is left to try.

        Our kernels always run. A plan that cannot be opened in time is stopped; all plans with one library are listed.

        Raises:
            BadInput: the model does not run with our kernels.
        """
        began_s = time.monotonic()
        self._clock = RaceClock(self._choice.race_s)
        with ExitStack() as stack:
            self._descriptor = sealed(self._library)
            stack.callback(os.close, self._descriptor)
            self._best, _ = self._opened(LibraryPlan((None,) * len(self._units)), timeout_s=float("inf"))
            try:
                self._keep(self._best)
                with suppress(BadInput):  # what was timed before stays
                    self._improve()
                winner = next(each for each in self._timed if each.plan == self._best.plan)
            finally:
                self._best.__exit__(None, None, None)
        return RaceResult(winner, tuple(self._timed), time.monotonic() - began_s, self._raced_units(winner.plan))

    def _raced_units(self, plan: LibraryPlan) -> tuple[RacedUnit, ...]:
        return tuple(
            RacedUnit(
                unit.functions,
                {library or OURS: own_s[at] for library, own_s in self._times_s.items() if isfinite(own_s[at])},
                runner or OURS,
            )
            for at, (unit, runner) in enumerate(zip(self._units, plan.assignment, strict=True))
        )

    def _improve(self) -> None:
        """Try plans in place of the best one. Raises BadInput if a child ended that the race cannot go on without."""
        whole = [tuple(None if unit.problem else library for unit in self._units) for library in self._choice.names]
        whole = [assignment for assignment in whole if any(assignment)]
        for at, assignment in enumerate(whole):
            plan = LibraryPlan(assignment, spins=self._is_whole(assignment))
            self._duel(plan, 1 / (len(whole) - at + 1))
        times_s = self._times_s
        by_speed = sorted(set(self._choice.names) - self._wrong, key=self._latency_of_all_s)
        for used in (None, *by_speed):
            # Opening each function by itself takes long: the library that is slower as a whole may go without.
            if self._clock.left_s() > (self._choice.race_s / 2 if times_s.keys() - {None} else 0):
                times_s.update(self._profiled(used))
        tried: set[Assignment] = {each.plan.assignment for each in self._timed}
        while self._has_time():
            right_s = {library: own_s for library, own_s in times_s.items() if library not in self._wrong}
            plans = [each for each in proposals(self._best.plan.assignment, right_s) if each not in tried]
            if not plans:
                break
            tried.add(plans[0])
            self._duel(LibraryPlan(plans[0], spins=self._is_whole(plans[0])), _SHARE)
        plan = self._best.plan
        if plan.can_spin and self._has_time():
            self._duel(LibraryPlan(plan.assignment, spins=not plan.spins), 1.0)

    def _has_time(self) -> bool:
        return self._clock.left_s() > 0

    def _latency_of_all_s(self, library: str) -> float:
        """Seconds of a run in which a library runs all that it can."""
        own = (each.latency_s for each in self._timed if each.plan.libraries == (library,))
        return next((latency_s for latency_s in own if latency_s is not None), float("inf"))

    def _is_whole(self, assignment: Assignment) -> bool:
        """Whether one region is the whole model: then nothing else wants the cores between its operators."""
        used = {library for unit, library in zip(self._units, assignment, strict=True) if unit.functions}
        return None not in used and len(used) == 1

    def _opened(
        self, plan: LibraryPlan, *, timeout_s: float, by_unit: bool = False
    ) -> tuple[Contestant, tuple[RegionParts, ...]]:
        """The plan in a child of its own, which ran once, and its regions."""
        planned = self._folders.planned(plan, by_unit=by_unit)
        contestant = Contestant(
            self._fork_server,
            plan,
            self._folders.written(plan, planned),
            self._descriptor,
            self._callees,
            self._functions_file,
            timeout_s=timeout_s,
        )
        return contestant, planned.parts.regions

    def _duel(self, plan: LibraryPlan, share: float) -> None:
        """Open a plan, and let it take the place of the best plan if it is better; the other one is closed.

        They are timed for at most ``share`` of the seconds that are left when it is open.

        Raises:
            BadInput: the best plan cannot be run any more, or no plan can be cut any more.
        """
        self._say(f"timing {plan.name}")
        try:
            if not self._has_time():
                raise BadInput("race-seconds", "they are spent.", "Give more.")
            challenger, _ = self._opened(plan, timeout_s=self._clock.left_s())
        except BadInput as error:
            late = "" if self._has_time() else f"not timed within --race-seconds {self._choice.race_s:g}"
            self._timed.append(TimedPlan(plan, None, late or str(error)))
            if self._folders.has_ended:
                raise
            return
        with ExitStack() as loser:
            loser.push(challenger)
            ratios, failure = ratios_by_turns(challenger, self._best, self._clock, share)
            self._keep(self._best)
            has_fewer = len(plan.libraries) < len(self._best.plan.libraries)
            is_won = failure is None and is_better(ratios, has_fewer_libraries=has_fewer)
            problem = "" if failure is None else str(failure)
            if is_won:
                problem = self._wrong_results(challenger)
            if problem:
                self._timed.append(TimedPlan(plan, None, problem))
                return
            self._keep(challenger)
            if is_won:
                loser.pop_all()
                loser.push(self._best)
                self._best = challenger

    def _wrong_results(self, contestant: Contestant) -> str:
        """What is wrong with the results of a plan; empty if they are right. A wrong library runs nothing else."""
        problem = self._check(contestant.folder) if contestant.plan.libraries else ""
        if problem and len(contestant.plan.libraries) == 1:
            self._wrong |= set(contestant.plan.libraries)
        return problem

    def _keep(self, contestant: Contestant) -> None:
        """Remember the fastest runs of a plan; load only adds time."""
        kept = TimedPlan(contestant.plan, sum(contestant.entries_s), entries_s=contestant.entries_s)
        is_known = any(each.plan == kept.plan for each in self._timed)
        self._timed = [kept if each.plan == kept.plan else each for each in self._timed]
        if not is_known:
            self._timed.append(kept)

    def _profiled(self, library: str | None) -> dict[str | None, Times]:
        """The time of each unit by itself, of our kernels or of a library; nothing if the library cannot run them."""
        self._say(f"timing each function by {library or 'our kernels'}")
        plan = LibraryPlan(tuple(None if unit.problem else library for unit in self._units))
        try:
            contestant, regions = self._opened(plan, timeout_s=self._clock.left_s(), by_unit=True)
            with contestant, self._clock.own_turn():
                functions_s = contestant.profile_s(self._clock.left_s())
            return {library: unit_times(self._units, library, regions, functions_s)}
        except BadInput:
            return {}
