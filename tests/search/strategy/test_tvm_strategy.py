import pytest

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.measurement import Failed, Timing
from tunefarm_search.space.scheduling import Scheduler
from tunefarm_search.space.space import SearchSpace
from tunefarm_search.strategy.candidate_filter import CandidateFilter
from tunefarm_search.strategy.candidate_selector import CandidateSelector
from tunefarm_search.strategy.moved_decisions import MovedDecisions
from tunefarm_search.strategy.protocol import Outcome
from tunefarm_search.strategy.tvm import TvmConfig, TvmStrategy


@pytest.mark.faults
def test_tvm_strategy_proposes_distinct_candidates(matmul_space: SearchSpace) -> None:
    scheduler = Scheduler(matmul_space)
    selector = CandidateSelector(scheduler, CandidateFilter(scheduler.module_of), MovedDecisions(matmul_space.sketches))
    strategy = TvmStrategy(matmul_space, selector, seed=1, max_trials=64, config=TvmConfig(32, candidates_per_round=16))
    hashes: list[str] = []
    for batch in range(6):
        proposals = strategy.propose(8)
        hashes += [proposal.scheduled.module_hash for proposal in proposals]
        crash = Failed(failure=TrialFailure(reason=FailureReason.CRASH, message="gone"))
        timings = [Timing(latency_s=1e-4 / (n + 1), samples_s=(1e-4 / (n + 1),)) for n in range(len(proposals))]
        results = [crash, *timings[1:]] if batch == 0 else timings
        strategy.observe([Outcome(p, result, 0.1) for p, result in zip(proposals, results, strict=True)])
    assert len(hashes) > 16
    assert len(set(hashes)) == len(hashes)
