"""A model over several explorations ranks candidates of a new one."""

import numpy as np
import tvm

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.measurement import Candidate, CandidateOrigin, Failed, Timing
from tunefarm_search.features.features import FeatureExtractor
from tunefarm_search.model.cost_model import CostModel
from tunefarm_search.model.pooled_model import PooledExploration, pooled_model
from tunefarm_search.model.population import Breeder, features_of
from tunefarm_search.model.rank_accuracy import rank_accuracy
from tunefarm_search.ports import KnownTrial
from tunefarm_search.replay.replay_table import ReplayTable
from tunefarm_search.space.scheduling import Scheduler
from tunefarm_search.space.space import search_space


def known(table: ReplayTable, numbers: range) -> tuple[KnownTrial, ...]:
    trials = []
    for number, (trace, recorded) in enumerate(zip(table.traces(), table.trials, strict=True)):
        if number not in numbers:
            continue
        failure = TrialFailure(reason=FailureReason.BUILD_ERROR, message="")
        latency_s = recorded.latency_s
        result = Failed(failure=failure) if latency_s is None else Timing(latency_s=latency_s, samples_s=(latency_s,))
        candidate = Candidate(
            exploration_id=table.name, number=number, trace=trace, module_hash="", origin=CandidateOrigin.RANDOM
        )
        trials.append(KnownTrial(candidate, result, recorded.build_s))
    return tuple(trials)


def exploration(table: ReplayTable, numbers: range) -> PooledExploration:
    return PooledExploration(table.module_json, table.target, "stable", table.space, known(table, numbers))


def accuracy_on(table: ReplayTable, numbers: range, model: str) -> float:
    space = search_space(tvm.ir.load_json(table.module_json), table.target, "stable", table.space)
    extractor = FeatureExtractor(space)
    carrier = CostModel(extractor.names)
    carrier.carry(model)
    trials = known(table, numbers)
    points = [Scheduler(space).point_of(trial.candidate.trace) for trial in trials]
    population = Breeder(space.sketches, np.random.default_rng(0)).of_points([point for point in points if point])
    features, _ = features_of(population, space.sketches, extractor)
    said = carrier.predict(features, np.full(len(features), np.nan))
    speeds = [1 / trial.result.latency_s if isinstance(trial.result, Timing) else 0.0 for trial in trials]
    found = rank_accuracy(said.score, np.array(speeds))
    assert found is not None
    return found.pair_accuracy


def test_a_pooled_model_ranks_the_unseen_and_another_shape_in_it_does_no_harm(
    small_table: ReplayTable, pool_table: ReplayTable
) -> None:
    count = len(pool_table.trials)
    unseen = range(count // 2, count)
    other = exploration(small_table, range(len(small_table.trials)))
    half = exploration(pool_table, range(count // 2))
    alone, both = pooled_model([half]), pooled_model([other, half])
    assert alone is not None
    assert both is not None
    from_half, from_both = accuracy_on(pool_table, unseen, alone), accuracy_on(pool_table, unseen, both)
    print(f"pairs in order: {from_half:.3f} from its own shape, {from_both:.3f} with another shape beside it")
    assert from_both > 0.7
    assert from_both > from_half - 0.05


def test_too_few_samples_train_no_model(small_table: ReplayTable) -> None:
    assert pooled_model([exploration(small_table, range(3))]) is None
