"""TVM's own evolutionary search, driven by its stepping interface, for comparison.

1. Take one round of candidates from TVM's search, and drop those that do not apply or repeat a schedule.
2. Propose the others, in TVM's order.
3. When all of them have results, train TVM's model with the round and start the next one.

Never uses its measure callbacks, builders and runners: they delete directories that results name.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.s_tir import meta_schedule

from tunefarm_schemas.tuning.measurement import CandidateOrigin, Failed, Stopped, Timing
from tunefarm_search.model.boosting import xgboost_module
from tunefarm_search.space.space import SearchSpace
from tunefarm_search.strategy.candidate_selector import CandidateSelector
from tunefarm_search.strategy.protocol import Outcome, Proposal, StrategyReport
from tunefarm_search.tvm.target import tvm_target
from tunefarm_search.tvm.tensor_intrinsics.of_tvm import load_intrinsics_for
from tunefarm_search.tvm.trace import trace_of

SEED_BOUND = 2**31 - 2


@dataclass(frozen=True)
class TvmConfig:
    """The constants of TVM's search, with the values of TVM's own tuner: a comparison is with what its users run.

    Attributes:
        population: number of points in each generation of the evolution.
        candidates_per_round: candidates that are measured between two trainings of the model.
    """

    population: int = 512
    candidates_per_round: int = 64


DEFAULTS = TvmConfig()


class TvmStrategy:
    """Buffers TVM's rounds of candidates and returns results in whole rounds, as TVM expects."""

    def __init__(
        self,
        space: SearchSpace,
        selector: CandidateSelector,
        seed: int,
        max_trials: int,
        config: TvmConfig = DEFAULTS,
    ) -> None:
        self._selector = selector
        self._model = _cost_model(seed)
        self._context = _context(space, seed, config.population)
        self._context.pre_tuning(
            max_trials=max(max_trials, config.candidates_per_round),
            num_trials_per_iter=config.candidates_per_round,
            database=meta_schedule.database.MemoryDatabase(),
            cost_model=self._model,
        )
        self._round: dict[str, Any] = {}
        self._queue: list[Proposal] = []
        self._results: dict[str, Any] = {}
        self._evolve_s = 0.0
        self._is_done = False

    def propose(self, count: int) -> list[Proposal]:
        """The next candidates of TVM's round; none while the round waits for results, or after the last."""
        if not self._queue and not self._round and not self._is_done:
            self._next_round()
        taken, self._queue = self._queue[:count], self._queue[count:]
        return taken

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Collect results; pass a complete round to TVM's model and search."""
        for outcome in outcomes:
            text = outcome.proposal.scheduled.trace.text
            if text in self._round:
                self._results[text] = _runner_result(outcome)
        if self._round and len(self._results) == len(self._round):
            self._finish_round()

    def report(self) -> StrategyReport:
        """Seconds in TVM's evolution, including training."""
        return StrategyReport(
            evolve_s=self._evolve_s,
            rejected=self._selector.rejected,
            repeated=self._selector.repeated,
            refusal=self._selector.refusal,
        )

    def model(self) -> str | None:
        """Always None: TVM saves its model as a pickle, which is unsafe to load."""
        return None

    def _next_round(self) -> None:
        started = time.perf_counter()
        candidates = self._context.generate_measure_candidates()
        self._evolve_s += time.perf_counter() - started
        for candidate in candidates or ():
            proposal = self._selector.replay(trace_of(candidate.sch), CandidateOrigin.EVOLVED)
            if proposal is not None:
                self._round[proposal.scheduled.trace.text] = candidate
                self._queue.append(proposal)
        self._is_done = not self._round

    def _finish_round(self) -> None:
        started = time.perf_counter()
        candidates = list(self._round.values())
        results = [self._results[text] for text in self._round]
        self._model.update(self._context, candidates, results)
        self._context.notify_runner_results(candidates, results)
        self._round, self._results = {}, {}
        self._evolve_s += time.perf_counter() - started


def _cost_model(seed: int) -> Any:
    xgboost_module()
    np.random.seed(seed % 2**32)
    return meta_schedule.cost_model.XGBModel(num_tuning_cores=1)


def _context(space: SearchSpace, seed: int, population: int) -> Any:
    load_intrinsics_for(space.target)
    generator = meta_schedule.space_generator.PostOrderApply(
        sch_rules="from-target", postprocs=list(space.postprocessors), mutator_probs="from-target"
    )
    quiet = logging.getLogger("tunefarm_search.tvm")
    quiet.setLevel(logging.ERROR)
    return meta_schedule.TuneContext(
        mod=space.module,
        target=tvm_target(space.target),
        space_generator=generator,
        search_strategy=meta_schedule.search_strategy.EvolutionarySearch(population_size=population),
        task_name="task",
        rand_state=seed % SEED_BOUND + 1,
        num_threads=1,
        logger=quiet,
    )


def _runner_result(outcome: Outcome) -> Any:
    result = outcome.result
    if isinstance(result, Timing):
        return meta_schedule.runner.RunnerResult(list(result.samples_s or (result.latency_s,)), None)
    if isinstance(result, Stopped):
        return meta_schedule.runner.RunnerResult([result.at_least_s], None)
    message = result.failure.message if isinstance(result, Failed) else ""
    return meta_schedule.runner.RunnerResult(None, message or "failed")
