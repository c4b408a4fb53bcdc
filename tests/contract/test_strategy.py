"""What every strategy keeps, in a space so small that it is exhausted."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from tvm import te

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.measurement import CandidateOrigin, Failed, Result, Stopped, Timing
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.features.features import FeatureExtractor
from tunefarm_search.model.cost_model import CostModel
from tunefarm_search.model.population import GeneticOperators
from tunefarm_search.space.scheduling import Scheduled, Scheduler
from tunefarm_search.space.space import SearchSpace, search_space
from tunefarm_search.strategy.candidate_filter import CandidateFilter
from tunefarm_search.strategy.candidate_selector import CandidateSelector
from tunefarm_search.strategy.evolutionary import EvolutionaryStrategy
from tunefarm_search.strategy.moved_decisions import MovedDecisions
from tunefarm_search.strategy.protocol import Outcome, Proposal, Strategy
from tunefarm_search.strategy.random import RandomStrategy
from tunefarm_search.strategy.replay import ReplayStrategy
from tunefarm_search.strategy.tvm import TvmConfig, TvmStrategy
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import canonical_target
from tunefarm_search.tvm.workload import workload_of

Make = Callable[[CandidateSelector, int], Strategy]
SEED, BATCH = 1, 3
ENOUGH_BATCHES = 200
"""More than the space has schedules."""
REPEATED_BATCHES = 4
"""As many as two strategies with one seed are compared by."""
TVM_TRIALS = 8
"""After which TVM's strategy ends: it takes seconds to find that a space is exhausted."""
CRASH = TrialFailure(reason=FailureReason.CRASH, message="gone")


@cache
def space() -> SearchSpace:
    """Of the sums of rows: 36 points in three sketches."""
    source, axis = te.placeholder((4, 6), name="A"), te.reduce_axis((0, 6))
    sums = te.compute((4,), lambda row: te.sum(source[row, axis], axis=axis), name="B")
    module = load_json(workload_of(te.create_prim_func([source, sums])).module_json)
    target = canonical_target({"kind": "llvm", "mcpu": "znver4", "num-cores": 2}).target
    return search_space(module, target, "stable", Space())


def selector(known: Iterable[Scheduled] = ()) -> CandidateSelector:
    """Without the schedules that are ``known``."""
    tried = CandidateFilter(Scheduler(space()).module_of)
    for each in known:
        tried.note_tried(each.module_hash, [each.trace])
    return CandidateSelector(Scheduler(space()), tried, MovedDecisions(space().sketches))


@cache
def every_schedule() -> list[Scheduled]:
    """The different schedules of all points."""
    every = GeneticOperators(space().sketches, np.random.default_rng(0)).every_point()
    applied = [Scheduler(space()).apply(every.point(number, space().sketches)) for number in range(len(every))]
    return list({each.module_hash: each for each in applied if isinstance(each, Scheduled)}.values())


def evolutionary(chosen: CandidateSelector, seed: int) -> Strategy:
    extractor = FeatureExtractor(space())
    return EvolutionaryStrategy(space(), chosen, CostModel(extractor.names, seed), extractor, seed)


def replay(chosen: CandidateSelector, seed: int) -> Strategy:
    """Of the schedules of the space in an order that depends on the seed, with repeats."""
    traces = [each.trace for each in every_schedule()]
    random.Random(seed).shuffle(traces)
    return ReplayStrategy(chosen, (*traces, *traces))


MAKERS: dict[str, Make] = {
    "evolutionary": evolutionary,
    "random": lambda chosen, seed: RandomStrategy(space(), chosen, seed),
    "tvm": lambda chosen, seed: TvmStrategy(space(), chosen, seed, TVM_TRIALS, TvmConfig(8, 4)),
    "replay": replay,
}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Make:
    return MAKERS[request.param]


@dataclass(frozen=True)
class Exhausted:
    """A strategy after its last proposal, and all that it proposed."""

    strategy: Strategy
    proposed: list[Proposal]


@pytest.fixture(scope="module", params=MAKERS)
def exhausted(request: pytest.FixtureRequest) -> Exhausted:
    return exhausted_by(request.param)


@cache
def exhausted_by(name: str) -> Exhausted:
    strategy = MAKERS[name](selector(), SEED)
    return Exhausted(strategy, exhaust(strategy))


def result_of(scheduled: Scheduled, number: int) -> Result:
    """Of each kind in turn; the time depends on the schedule."""
    latency_s = 1e-6 * (1 + int(scheduled.module_hash) % 97)
    if number % 5 == 3:
        return Failed(failure=TrialFailure(reason=FailureReason.BUILD_ERROR, message="refused"))
    return Stopped(at_least_s=latency_s) if number % 5 == 4 else Timing(latency_s=latency_s, samples_s=(latency_s,))


def outcomes_of(proposals: Iterable[Proposal], first: int = 0) -> list[Outcome]:
    return [Outcome(each, result_of(each.scheduled, number), 0.1) for number, each in enumerate(proposals, first)]


def exhaust(strategy: Strategy) -> list[Proposal]:
    """Propose and observe until the strategy has no more."""
    proposed: list[Proposal] = []
    for _ in range(ENOUGH_BATCHES):
        batch = strategy.propose(BATCH)
        if not batch:
            return proposed
        assert len(batch) <= BATCH
        strategy.observe(outcomes_of(batch, len(proposed)))
        proposed += batch
    raise AssertionError("the strategy does not end")


def first_of(strategy: Strategy) -> list[Proposal]:
    """The first proposals, of which the later ones depend on what became of the others."""
    proposed: list[Proposal] = []
    for _ in range(REPEATED_BATCHES):
        batch = strategy.propose(BATCH)
        strategy.observe(outcomes_of(batch, len(proposed)))
        proposed += batch
    return proposed


def hashes_of(proposals: Iterable[Proposal]) -> list[str]:
    return [each.scheduled.module_hash for each in proposals]


def test_strategy_proposes_valid_schedules_once_until_it_has_no_more(exhausted: Exhausted) -> None:
    proposed, scheduler = exhausted.proposed, Scheduler(space())
    assert len(proposed) > 2 * BATCH
    for each in proposed:
        replayed = scheduler.replay(each.scheduled.trace)
        assert isinstance(replayed, Scheduled), replayed
        assert replayed.module_hash == each.scheduled.module_hash
    assert len(set(hashes_of(proposed))) == len(proposed)
    assert exhausted.strategy.propose(BATCH) == []


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "tvm"])
def test_strategy_finds_each_schedule_of_a_small_space(name: str) -> None:
    assert set(hashes_of(exhausted_by(name).proposed)) == {each.module_hash for each in every_schedule()}


def test_strategy_takes_batches_of_each_size(make: Make) -> None:
    strategy = make(selector(), SEED)
    assert strategy.propose(0) == []
    for count in (1, 4, 2):
        proposed = strategy.propose(count)
        assert 0 < len(proposed) <= count
        strategy.observe(outcomes_of(proposed))
    strategy.observe([])


def test_strategy_skips_known_schedules(make: Make) -> None:
    known = every_schedule()[::2]
    strategy = make(selector(known), SEED)
    strategy.observe(outcomes_of(Proposal(each, CandidateOrigin.SEED) for each in known))
    proposed = hashes_of(exhaust(strategy))
    assert proposed
    assert not {each.module_hash for each in known} & set(proposed)


@pytest.mark.parametrize("name", MAKERS)
def test_strategy_repeats_its_choices_for_a_seed(name: str) -> None:
    proposed = exhausted_by(name).proposed
    again, other = (first_of(MAKERS[name](selector(), seed)) for seed in (SEED, SEED + 1))
    assert again == proposed[: len(again)]
    assert other != again


def test_strategy_continues_after_crashes(make: Make) -> None:
    strategy = make(selector(), SEED)
    strategy.observe([Outcome(each, Failed(failure=CRASH), 0.0) for each in strategy.propose(BATCH)])
    assert len(first_of(strategy)) > BATCH


def test_strategy_reports_figures(exhausted: Exhausted) -> None:
    report = exhausted.strategy.report()
    assert min(report.evolve_s, report.apply_s, report.train_s, report.rejected, report.repeated) >= 0
    assert bool(report.refusal) is (report.rejected > 0)


def test_strategy_saves_model_for_other_explorations(exhausted: Exhausted) -> None:
    saved = exhausted.strategy.model()
    if saved is not None:
        CostModel(FeatureExtractor(space()).names, SEED).carry(saved)
