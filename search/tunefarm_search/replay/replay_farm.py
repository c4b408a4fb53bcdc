"""A farm that answers from a table, in virtual time."""

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.measurement import Candidate, Failed, Measurement, Purpose, Result, Stages, Stopped, Timing
from tunefarm_search.replay.replay_table import RecordedTrial, ReplayTable

TIMING_S = 0.03
"""Virtual time that timing one candidate takes in addition to its calls."""


class ReplayFarm:
    """Implements the ``Farm`` and ``Clock`` ports with a table, or with one for each exploration.

    Candidates pass through ``lanes`` in the order of submission. Each takes its recorded build time, scaled by a seeded
    factor, so that another seed results in another order of delivery. Nothing depends on real time.

    Args:
        depth: number of candidates that the farm accepts at once.
        stop_ratio: if given, stop a candidate that is slower than the best so far by this factor.
    """

    def __init__(
        self,
        table: ReplayTable | Mapping[str, ReplayTable],
        *,
        seed: int = 0,
        lanes: int = 2,
        depth: int = 8,
        stop_ratio: float | None = None,
    ) -> None:
        self._tables = defaultdict(lambda: table) if isinstance(table, ReplayTable) else table
        self._random = np.random.default_rng(seed)
        self._lanes = [0.0] * lanes
        self._depth = depth
        self._stop_ratio = stop_ratio
        self._now_s = 0.0
        self._best_s: dict[str, float] = defaultdict(lambda: float("inf"))
        self._in_flight: list[tuple[float, int, Candidate, RecordedTrial]] = []
        self._submitted = 0
        self.delivered: list[Measurement] = []

    def submit(self, candidates: Sequence[Candidate]) -> None:
        """Queue candidates.

        Raises:
            MissingMeasurement: the table does not contain one of them.
        """
        for candidate in candidates:
            trial = self._tables[candidate.exploration_id].look_up(candidate.trace)
            lane = int(np.argmin(self._lanes))
            took_s = (trial.build_s + TIMING_S) * float(self._random.uniform(0.7, 1.5))
            self._lanes[lane] = max(self._lanes[lane], self._now_s) + took_s
            heapq.heappush(self._in_flight, (self._lanes[lane], self._submitted, candidate, trial))
            self._submitted += 1

    def collect(self, timeout_s: float | None) -> list[Measurement]:
        """Advance virtual time to the next result, or by ``timeout_s``, and return the available results."""
        if self._in_flight and (timeout_s is None or self._in_flight[0][0] <= self._now_s + timeout_s):
            self._now_s = max(self._now_s, self._in_flight[0][0])
        elif timeout_s is not None:
            self._now_s += timeout_s
        ready = []
        while self._in_flight and self._in_flight[0][0] <= self._now_s:
            _, number, candidate, trial = heapq.heappop(self._in_flight)
            ready.append(self._measurement(number, candidate, trial))
        self.delivered += ready
        return ready

    def room(self) -> int:
        """Number of further candidates that it accepts."""
        return self._depth - len(self._in_flight)

    def now_s(self) -> float:
        """Virtual seconds since the start."""
        return self._now_s

    def best_after(self, trials: int) -> float:
        """The best latency in seconds among the first ``trials`` results; infinite if none has a timing."""
        results = [measurement.result for measurement in self.delivered[:trials]]
        return min((r.latency_s for r in results if isinstance(r, Timing)), default=float("inf"))

    def _measurement(self, number: int, candidate: Candidate, trial: RecordedTrial) -> Measurement:
        return Measurement(
            dispatch_id=f"replay-{number}",
            nonce="",
            fence=0,
            exploration_id=candidate.exploration_id,
            candidate_number=candidate.number,
            attempt=1,
            purpose=Purpose.SEARCH,
            result=self._result(candidate.exploration_id, trial),
            stages=Stages(build_s=trial.build_s, run_s=TIMING_S),
        )

    def _result(self, exploration_id: str, trial: RecordedTrial) -> Result:
        if trial.latency_s is None:
            return Failed(failure=TrialFailure(reason=FailureReason.BUILD_TIMEOUT, message="recorded as failed"))
        bound_s = float("inf") if self._stop_ratio is None else self._stop_ratio * self._best_s[exploration_id]
        if trial.latency_s > bound_s:
            return Stopped(at_least_s=bound_s)
        self._best_s[exploration_id] = min(self._best_s[exploration_id], trial.latency_s)
        return Timing(latency_s=trial.latency_s, samples_s=(trial.latency_s,))
