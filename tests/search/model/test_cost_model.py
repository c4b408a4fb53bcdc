import subprocess
import sys

import numpy as np
import pytest

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.measurement import Failed, Stopped, Timing
from tunefarm_search.model.cost_model import CostModel, Sample, sample_of
from tunefarm_search.model.rank_accuracy import placing_accuracy

NAMES = ("a", "b", "c", "d", "e", "f")


def labelled_samples(count: int, seed: int = 0) -> tuple[np.ndarray, list[Sample]]:
    features = np.random.default_rng(seed).random((count, 6), np.float32)
    return features, [Sample(float(1e-5 * (1 + 9 * row[0])), False, float(0.1 + row[1])) for row in features]


def trained_model(count: int = 96) -> CostModel:
    model = CostModel(NAMES, seed=1)
    features, samples = labelled_samples(count)
    model.add(features, np.full(count, np.nan), samples)
    model.learn()
    return model


def test_model_ranks_unseen_candidates() -> None:
    features, samples = labelled_samples(64, seed=9)
    predicted = trained_model().predict(features, np.full(64, np.nan))
    latencies_s = np.array([sample.latency_s for sample in samples])
    accuracy = placing_accuracy(predicted.score, latencies_s, np.zeros(64, np.bool_), first_new=0)
    assert accuracy is not None
    assert accuracy.pair_accuracy > 0.8
    assert np.corrcoef(predicted.build_s, features[:, 1])[0, 1] > 0.8
    assert (predicted.spread >= 0).all()


def test_saved_model_predicts_the_same_after_columns_move() -> None:
    first = trained_model()
    saved = first.save()
    assert saved is not None
    second = CostModel(("c", "new", "a", "b", "f", "e", "d"))
    second.carry(saved)
    features = labelled_samples(32, seed=3)[0]
    moved = np.column_stack([features[:, 2], np.ones(32), *features[:, [0, 1, 5, 4, 3]].T]).astype(np.float32)
    nothing = np.full(32, np.nan)
    np.testing.assert_allclose(
        first.predict(features, nothing).score, second.predict(moved, nothing).score, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("text", ["{}", "[]", '{"names": [], "speed": ["nonsense"]}'])
def test_invalid_model_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="model"):
        CostModel(NAMES).carry(text)


def test_prior_ranks_candidates_until_model_learns() -> None:
    features, _ = labelled_samples(16, seed=2)
    wrong_prior = features[:, 0].astype(np.float64)
    fresh = CostModel(NAMES).predict(features, wrong_prior)
    assert (np.argsort(fresh.score) == np.argsort(wrong_prior)).all()
    learned = trained_model(256).predict(features, wrong_prior)
    assert np.corrcoef(learned.score, wrong_prior)[0, 1] < -0.8


def test_failures_and_early_stops_become_labels() -> None:
    failure = TrialFailure(reason=FailureReason.CRASH, message="gone")
    assert sample_of(Failed(failure=failure), 0.2) == Sample(float("inf"), False, 0.2)
    assert sample_of(Stopped(at_least_s=2e-3), 0.2) == Sample(2e-3, True, 0.2)
    assert sample_of(Timing(latency_s=1e-3, samples_s=(1e-3,)), 0.2) == Sample(1e-3, False, 0.2)


def test_model_ranks_censored_samples_below_their_bound() -> None:
    features, samples = labelled_samples(128)
    model = CostModel(NAMES)
    nothing = np.full(128, np.nan)
    model.add(features, nothing, samples)
    model.learn()
    # Very slow ones are stopped at twice the best: their bound carries little information.
    stopped = [Sample(min(s.latency_s, 2e-5), s.latency_s > 2e-5, s.build_s) for s in samples]
    model.add(features, nothing, stopped)
    model.learn()
    predicted = model.predict(features, nothing).score
    slow = np.array([s.latency_s > 5e-5 for s in samples])
    middling = np.array([1.5e-5 < s.latency_s < 2e-5 for s in samples])
    assert predicted[slow].mean() < predicted[middling].mean()


def test_model_with_only_failures_learns_nothing() -> None:
    model = CostModel(NAMES)
    features, _ = labelled_samples(8)
    model.add(features, np.zeros(8), [Sample(float("inf"), False, 1.0)] * 8)
    assert model.learn() is None
    assert model.save() is None


def test_accuracy_is_measured_before_learning() -> None:
    model = trained_model()
    features, samples = labelled_samples(16, seed=5)
    model.add(features, np.full(16, np.nan), samples)
    accuracy = model.learn()
    assert accuracy is not None
    assert 0.85 < accuracy.pair_accuracy <= 1.0
    assert accuracy.samples == 16


def test_accuracy_compares_new_samples_with_known_ones() -> None:
    known_s, new_s = [1e-5, 2e-5, 4e-5, 8e-5], [1.01e-5, 1.02e-5]
    latencies_s, score = np.array(known_s + new_s), np.array([3.0, 2.0, 1.0, 0.0, 2.5, 2.4])
    nothing = np.zeros(6, np.bool_)
    found = placing_accuracy(score, latencies_s, nothing, first_new=4)
    assert found is not None
    # Each of the two outranks the three slower ones; the other pairs are ties.
    assert (found.pair_accuracy, found.pairs, found.samples, found.known) == (1.0, 6, 2, 6)
    upside_down = placing_accuracy(-score, latencies_s, nothing, first_new=4)
    assert upside_down is not None
    assert upside_down.pair_accuracy == 0.0
    assert placing_accuracy(np.zeros(6), latencies_s, nothing, first_new=4) is None


def test_censored_samples_decide_only_certain_pairs() -> None:
    score = np.array([1.0, 0.0])
    for earlier_s, new_s, bounds, is_decided in (
        (1e-5, 2e-5, (False, True), True),  # the new one takes at least twice as long
        (2e-5, 1e-5, (False, True), False),  # the ratio is unknown
        (2e-5, 1e-5, (True, False), True),
        (1e-5, 2e-5, (True, False), False),
        (1e-5, 2e-5, (True, True), False),
        (2e-5, float("inf"), (True, False), True),  # a failure is worse than anything
        (float("inf"), float("inf"), (False, False), False),
    ):
        found = placing_accuracy(score, np.array([earlier_s, new_s]), np.array(bounds), first_new=1)
        assert (found is not None) == is_decided, (earlier_s, new_s, bounds)


def test_random_scores_have_chance_accuracy() -> None:
    random = np.random.default_rng(3)
    latencies_s = random.permutation(np.geomspace(1e-5, 1e-3, 400))
    found = placing_accuracy(random.random(400), latencies_s, np.zeros(400, np.bool_), first_new=100)
    assert found is not None
    assert abs(found.pair_accuracy - 0.5) < 0.1


@pytest.mark.faults
def test_search_never_imports_scipy() -> None:
    code = (
        "from tunefarm_search.tvm.tensor_intrinsics.of_tvm import load_intrinsics; load_intrinsics('llvm')\n"
        "import tunefarm_search.loop.loop, tunefarm_search.replay.replay_farm, sys, numpy as np\n"
        "from tunefarm_search.model.boosting import BoostedTrees\n"
        "trees = BoostedTrees.fit(np.eye(8, dtype='float32'), np.arange(8.0), rounds=3, depth=3, seed=0)\n"
        "BoostedTrees.load(trees.save()).predict(np.eye(8, dtype='float32'))\n"
        "assert not [m for m in sys.modules if m.startswith('scipy.') and m != 'scipy.sparse'], 'scipy is loaded'\n"
        "assert 'tvm.s_tir.tensor_intrin.cuda' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=150)
