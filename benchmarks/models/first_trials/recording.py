"""Runs searches and measures their candidates, one after the other, each in a forked child."""

import time
from collections.abc import Callable, Sequence

from benchmarks.models.first_trials.trial_table import FirstTrialsTable, SearchRun, TableTrial
from benchmarks.store.record_replay_table import measure
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.job import Effort
from tunefarm_schemas.tuning.measurement import Candidate, Failed, Measurement, Purpose, Result, Stages, Timing
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.loop.loop import SearchLoop
from tunefarm_search.loop.task_search import SearchTask
from tunefarm_search.space.scheduling import Scheduler
from tunefarm_search.space.space import SearchSpace, search_space
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import tvm_target
from tunefarm_search.tvm.trace import steps_of

DEPTH = 8
"""Candidates in flight, as with two lanes of a farm: the search proposes the next before it knows these."""
DIGITS = 5

Timed = tuple[float | None, float]
"""Seconds of a call, None for a failure, and of the build."""
OnTrial = Callable[[int, float], None]
"""Called with the number of trials and the lowest latency in seconds after each of them."""


class MeasuringFarm:
    """Implements the ports ``SearchFarm`` and ``Clock``. A schedule that was measured before keeps its latency."""

    def __init__(
        self,
        space: SearchSpace,
        target: Target,
        known: dict[str, Timed],
        on_trial: OnTrial,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """``clock`` times the candidates."""
        self._space, self._tvm_target = space, tvm_target(target)
        self._known = known
        self._waiting: list[Candidate] = []
        self._on_trial = on_trial
        self._clock = clock
        self.measured: list[tuple[Candidate, Timed]] = []
        self._best_s = float("inf")

    def submit(self, candidates: Sequence[Candidate]) -> None:
        """Queue candidates."""
        self._waiting += candidates

    def collect(self, timeout_s: float | None) -> list[Measurement]:
        """Measure the next candidate, unless the search has further ones to propose first."""
        if timeout_s == 0 or not self._waiting:
            return []
        candidate = self._waiting.pop(0)
        if candidate.module_hash not in self._known:
            self._known[candidate.module_hash] = measure(self._space, candidate.trace, self._tvm_target, self._clock)
        timed = self._known[candidate.module_hash]
        self.measured.append((candidate, timed))
        self._best_s = min(self._best_s, float("inf") if timed[0] is None else timed[0])
        self._on_trial(len(self.measured), self._best_s)
        return [_measurement(candidate, timed)]

    def room(self) -> int:
        """Number of further candidates that it accepts."""
        return DEPTH - len(self._waiting)

    def now_s(self) -> float:
        """The monotonic clock."""
        return time.monotonic()


def _measurement(candidate: Candidate, timed: Timed) -> Measurement:
    latency_s, build_s = timed
    result: Result
    if latency_s is None:
        result = Failed(failure=TrialFailure(reason=FailureReason.RUN_TIMEOUT, message="failed or took too long"))
    else:
        result = Timing(latency_s=latency_s, samples_s=(latency_s,))
    return Measurement(
        dispatch_id=f"trial-{candidate.number}",
        nonce="",
        fence=0,
        exploration_id=candidate.exploration_id,
        candidate_number=candidate.number,
        attempt=1,
        purpose=Purpose.SEARCH,
        result=result,
        stages=Stages(build_s=build_s),
    )


def record(name: str, module_json: str, target: Target, trials: Sequence[int], on_trial: OnTrial) -> FirstTrialsTable:
    """Search a function of a model once for each of ``trials``, with seeds from 0 on, without earlier knowledge."""
    space = search_space(load_json(module_json), target, "stable", Space())
    known: dict[str, Timed] = {}
    runs, before = [], 0
    for seed, count in enumerate(trials):

        def counted(done: int, best_s: float, before: int = before) -> None:
            on_trial(before + done, best_s)

        farm = MeasuringFarm(space, target, known, counted)
        task = SearchTask(name, module_json, target, of_model=True)
        SearchLoop([task], farm, farm, Effort(trials=count), seed=seed).run()
        runs.append(SearchRun(seed=seed, trials=tuple(_trial(space, *each) for each in farm.measured)))
        before += len(farm.measured)
    sketches = tuple(sketch.steps.sketch.text for sketch in space.sketches)
    return FirstTrialsTable(name=name, module_json=module_json, target=target, sketches=sketches, runs=tuple(runs))


def _trial(space: SearchSpace, candidate: Candidate, timed: Timed) -> TableTrial:
    point = Scheduler(space).point_of(candidate.trace)
    steps = steps_of(candidate.trace)
    return TableTrial(
        origin=candidate.origin.value,
        sketch=None if point is None else point.sketch,
        decisions=() if point is None else tuple(steps.decisions[number] for number in steps.sampling),
        latency_s=None if timed[0] is None else float(f"{timed[0]:.{DIGITS}g}"),
        build_s=round(timed[1], 2),
    )
