"""The search of one task: its space, its strategy and its candidates in flight."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

import numpy as np

from tunefarm_schemas.tuning.job import Strategy as StrategyName
from tunefarm_schemas.tuning.measurement import Candidate, CandidateOrigin, Measurement, Timing
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space, Trace
from tunefarm_schemas.tuning.workload import Abi
from tunefarm_search.features.features import FeatureExtractor
from tunefarm_search.model.cost_model import CostModel
from tunefarm_search.model.population import GeneticOperators, Population
from tunefarm_search.ports import KnownTrial, RecordSource
from tunefarm_search.space.scheduling import Scheduled, Scheduler
from tunefarm_search.space.space import SearchSpace, search_space
from tunefarm_search.strategy.candidate_filter import CandidateFilter
from tunefarm_search.strategy.candidate_selector import CandidateSelector
from tunefarm_search.strategy.evolutionary import DEFAULTS, EvolutionaryStrategy, EvolutionConfig
from tunefarm_search.strategy.moved_decisions import MovedDecisions
from tunefarm_search.strategy.protocol import Outcome, Proposal, Strategy
from tunefarm_search.strategy.random import RandomStrategy
from tunefarm_search.strategy.replay import ReplayStrategy
from tunefarm_search.strategy.stopping import TaskCourse
from tunefarm_search.strategy.tvm import TvmStrategy
from tunefarm_search.strategy.warm_start import given_proposals, near_proposals
from tunefarm_search.tvm.errors import TVM_ERRORS
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.untried.untried_schedule import untried_schedule
from tunefarm_search.validation.judged_schedule import judged_schedule
from tunefarm_search.validation.judgement import named_callees


@dataclass(frozen=True)
class SearchTask:
    """The input of the search of one task. ``module_json`` is TVM's JSON of the workload's module.

    With a ``pool``, only its traces are candidates, to compare strategies on measured data; ``evolution`` has other
    constants to compare them. A task ``of_model`` is one of a model's, whose times add up; ``is_answered`` if the store
    has its record, so that only its share counts.
    """

    exploration_id: str
    module_json: str
    target: Target
    abi: Abi = "stable"
    space: Space = field(default_factory=Space)
    seed_traces: tuple[Trace, ...] = ()
    weight: float = 1.0
    pool: tuple[Trace, ...] = ()
    evolution: EvolutionConfig = DEFAULTS
    of_model: bool = False
    is_answered: bool = False


class TaskSearch:
    """Proposes numbered candidates for one task and learns from their measurements."""

    def __init__(
        self, task: SearchTask, strategy: StrategyName, seed: int, max_trials: int, records: RecordSource
    ) -> None:
        self.task = task
        space = search_space(load_json(task.module_json), task.target, task.abi, task.space)
        claimed = records.claimed_traces(task.exploration_id) if strategy == "evolutionary" else ()
        self.space = _with_sketches_of(space, (*task.seed_traces, *claimed))
        scheduler = Scheduler(self.space)
        self.selector = CandidateSelector(
            scheduler, CandidateFilter(scheduler.module_of), MovedDecisions(self.space.sketches)
        )
        pool = _pool(self.space, scheduler, task.pool)
        self.strategy = _strategy(strategy, self.space, self.selector, seed, max_trials, task, records, pool)
        self.course = TaskCourse()
        self._in_flight: dict[int, Proposal] = {}
        self._next_number = 0
        self.known_trials = 0
        """Number of trials from earlier searches."""
        self._resume(records.known_trials(task.exploration_id), scheduler)
        self._first = self._given(strategy, records)

    @property
    def in_flight(self) -> int:
        """Number of candidates without a result."""
        return len(self._in_flight)

    def propose(self, count: int) -> list[Candidate]:
        """At most ``count`` new candidates; none if there are none at present."""
        proposals, self._first = self._first[:count], self._first[count:]
        if len(proposals) < count:
            proposals = proposals + self.strategy.propose(count - len(proposals))
        return [self._numbered(proposal) for proposal in proposals]

    def take(self, measurements: Sequence[Measurement]) -> list[float | None]:
        """Learn from measurements. Returns the latency in seconds for each known candidate, None without a timing."""
        outcomes = []
        for measurement in measurements:
            proposal = self._in_flight.pop(measurement.candidate_number, None)
            if proposal is not None:
                outcomes.append(Outcome(proposal, measurement.result, measurement.stages.build_s))
        latencies = [o.result.latency_s if isinstance(o.result, Timing) else None for o in outcomes]
        for latency_s in latencies:
            self.course = self.course.after(latency_s)
        self.strategy.observe(outcomes)
        return latencies

    def _numbered(self, proposal: Proposal) -> Candidate:
        number = self._next_number
        self._next_number += 1
        self._in_flight[number] = proposal
        return Candidate(
            exploration_id=self.task.exploration_id,
            number=number,
            trace=proposal.scheduled.trace,
            module_hash=proposal.scheduled.module_hash,
            origin=proposal.origin,
            predicted_score=proposal.score,
            predicted_build_s=proposal.build_s,
        )

    def _given(self, strategy: StrategyName, records: RecordSource) -> list[Proposal]:
        """The first proposals: the seeds and, for the evolutionary strategy, traces from the store."""
        if strategy == "replay":
            return []
        given = self._untried() + given_proposals(self.selector, self.task.seed_traces, CandidateOrigin.SEED)
        if strategy == "evolutionary":
            claimed = records.claimed_traces(self.task.exploration_id)
            given += given_proposals(self.selector, claimed, CandidateOrigin.STORE)
            given += near_proposals(self.space, self.selector, records.near_traces(self.task.exploration_id))
        return given

    def _untried(self) -> list[Proposal]:
        """For a task of a model, the schedule that it has without a trial: what is found must not be slower."""
        if not self.task.of_model or self.task.pool:
            return []
        chosen = untried_schedule(self.space.module, self.task.target)
        return given_proposals(self.selector, [chosen.trace], CandidateOrigin.UNTRIED)

    def _resume(self, known: Sequence[KnownTrial], scheduler: Scheduler) -> None:
        """Add known trials without applying their traces: the point follows from the trace."""
        outcomes = []
        for trial in known:
            candidate = trial.candidate
            self._next_number = max(self._next_number, candidate.number + 1)
            self.selector.known.note_tried(candidate.module_hash, [candidate.trace])
            point = scheduler.point_of(candidate.trace)
            if point is not None:
                self.selector.known.note_point(point)
            scheduled = Scheduled(point, candidate.trace, candidate.module_hash)
            outcomes.append(Outcome(Proposal(scheduled, candidate.origin), trial.result, trial.build_s))
            if isinstance(trial.result, Timing) and trial.result.latency_s < self.course.best_latency_s:
                self.course = TaskCourse(0, trial.result.latency_s, 0, trial.result.latency_s)
        self.known_trials = len(outcomes)
        if outcomes:
            self.strategy.observe(outcomes)


def _with_sketches_of(space: SearchSpace, traces: Sequence[Trace]) -> SearchSpace:
    """The space with the sketches of the traces added, so that evolution can start from a hand-written schedule."""
    callees = named_callees(space.module)
    for trace in traces:
        try:
            # Every candidate of a sketch contains its instructions, so check them before adding it.
            judged_schedule(space.module, json.loads(trace.text), callees=callees)
            space = space.with_sketch_of(trace)
        except TVM_ERRORS:
            continue
    return space


def _pool(space: SearchSpace, scheduler: Scheduler, traces: Sequence[Trace]) -> Population | None:
    if not traces:
        return None
    points = [scheduler.point_of(trace) for trace in traces]
    if None in points:
        raise ValueError(f"trace {points.index(None)} of the pool is not a point of the space")
    operators = GeneticOperators(space.sketches, np.random.default_rng(0))
    return operators.of_points([point for point in points if point is not None])


def _strategy(
    name: StrategyName, space: SearchSpace, selector: CandidateSelector, seed: int, max_trials: int, task: SearchTask,
    records: RecordSource, pool: Population | None,
) -> Strategy:  # fmt: skip
    match name:
        case "random":
            return RandomStrategy(space, selector, seed, pool)
        case "evolutionary":
            extractor = FeatureExtractor(space)
            model = CostModel(extractor.names, seed)
            snapshot = records.model_snapshot(task.exploration_id)
            if snapshot is not None:
                model.carry(snapshot)
            return EvolutionaryStrategy(space, selector, model, extractor, seed, pool, task.evolution)
        case "tvm":
            # The same seed would repeat the rounds that were already measured.
            known = len(records.known_trials(task.exploration_id))
            return TvmStrategy(space, selector, seed + known, max_trials)
        case "replay":
            claimed = records.claimed_traces(task.exploration_id)
            return ReplayStrategy(selector, (*task.seed_traces, *claimed, *records.near_traces(task.exploration_id)))
    assert_never(name)
