"""The cost model: predicts the speed of points, its uncertainty, and the build time."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tunefarm_schemas.tuning.measurement import Result, Stopped, Timing
from tunefarm_search.model.boosting import BoostedTrees, FeatureArray, FloatArray
from tunefarm_search.model.rank_accuracy import RankAccuracy, placing_accuracy


@dataclass(frozen=True)
class CostModelConfig:
    """The constants of the model.

    Attributes:
        ensemble: number of sets of trees that predict the speed, each with its own seed.
        rounds: trees per set, of depth ``depth``.
        build_rounds: trees that predict the build time, of depth ``build_depth``.
        min_new_samples: fewer new samples do not start a training.
        failure_weight: sample weight of a failure; the best candidate has 1 more.
        prior_samples: number of samples at which the prior and the learned model have equal weight.
        carried_samples: the same for a model of another workload that has all features.
        min_shared_features: share of the features that such a model must have.
        bound: a stopped candidate may be much slower than observed if it exceeds the best latency by this factor.
    """

    ensemble: int = 3
    rounds: int = 24
    depth: int = 5
    build_rounds: int = 16
    build_depth: int = 4
    min_new_samples: int = 8
    failure_weight: float = 0.3
    prior_samples: float = 16.0
    carried_samples: float = 32.0
    min_shared_features: float = 0.25
    bound: float = 2.0


DEFAULTS = CostModelConfig()


@dataclass(frozen=True)
class Prediction:
    """Predictions for points; every array has the shape [points].

    Attributes:
        score: higher is faster; comparable only within one prediction.
        spread: standard deviation over the ensemble, in units of ``score``.
        build_s: expected build time in seconds; NaN before the first build.
    """

    score: FloatArray
    spread: FloatArray
    build_s: FloatArray


@dataclass(frozen=True)
class Sample:
    """A training sample from one measurement.

    ``latency_s`` is infinite for a failure and a lower bound if censored. ``build_s`` is 0 without a build, and the
    time until the end of an interrupted one.
    """

    latency_s: float
    is_censored: bool
    build_s: float


def sample_of(result: Result, build_s: float) -> Sample:
    """The sample of one result."""
    if isinstance(result, Timing):
        return Sample(result.latency_s, False, build_s)
    if isinstance(result, Stopped):
        return Sample(result.at_least_s, True, build_s)
    return Sample(float("inf"), False, build_s)


class CostModel:
    """An ensemble of boosted trees for the throughput relative to the best, and one for the build time.

    A failure has the label 0. A censored sample far behind the best has only an upper bound; its label is the minimum
    of that and the previous prediction. An analytical prior and a model of another workload contribute to predictions,
    with a weight that decreases with every sample.
    """

    def __init__(self, names: Sequence[str], seed: int = 0, config: CostModelConfig = DEFAULTS) -> None:
        self.names = tuple(names)
        self._config = config
        self._seed = seed
        self._features = np.zeros((0, len(self.names)), np.float32)
        self._prior = np.zeros(0)
        self._samples: list[Sample] = []
        self._learned = 0
        self._speed: list[BoostedTrees] = []
        self._build: BoostedTrees | None = None
        self._shared_features = 0.0
        self._carried: tuple[list[BoostedTrees], BoostedTrees | None, np.ndarray] | None = None

    def add(self, features: FeatureArray, prior: FloatArray, samples: Sequence[Sample]) -> None:
        """Add measurements, with features of shape [samples, names] and their prior of shape [samples]."""
        self._features = np.concatenate([self._features, features])
        self._prior = np.concatenate([self._prior, prior])
        self._samples.extend(samples)

    @property
    def is_due(self) -> bool:
        """Whether enough samples are new since the last training."""
        fresh = len(self._samples) - self._learned
        return fresh >= max(self._config.min_new_samples, self._learned // 10)

    def learn(self) -> RankAccuracy | None:
        """Train new trees on all samples. Returns the accuracy of the old ones on the new samples."""
        accuracy = self._accuracy_on_new()
        self._learned = len(self._samples)
        self._grow()
        return accuracy

    def _accuracy_on_new(self) -> RankAccuracy | None:
        prediction = self.predict(self._features, self._prior)
        latencies_s = np.array([sample.latency_s for sample in self._samples])
        is_bound = np.array([sample.is_censored for sample in self._samples], np.bool_)
        return placing_accuracy(prediction.score, latencies_s, is_bound, self._learned)

    def _grow(self) -> None:
        config = self._config
        latencies = np.array([sample.latency_s for sample in self._samples])
        censored = np.array([sample.is_censored for sample in self._samples])
        timed = latencies[~censored]
        if not np.isfinite(timed).any():
            return
        labels = _labels_of(latencies)
        # A candidate stopped slightly behind the best was called often enough for a good estimate.
        is_bound = censored & (latencies > config.bound * timed.min())
        if self._speed and is_bound.any():
            before = np.mean([trees.predict(self._features) for trees in self._speed], axis=0)
            labels = np.where(is_bound, np.minimum(labels, np.maximum(before, 0)), labels)
        weights = config.failure_weight + labels
        self._speed = [
            BoostedTrees.fit(
                self._features, labels, rounds=config.rounds, depth=config.depth, seed=self._seed + n, weights=weights
            )
            for n in range(config.ensemble)
        ]
        builds_s = np.array([sample.build_s for sample in self._samples])
        built = builds_s > 0
        if built.any():
            self._build = BoostedTrees.fit(
                self._features[built],
                np.log(builds_s[built]),
                rounds=config.build_rounds,
                depth=config.build_depth,
                seed=self._seed,
            )

    def predict(self, features: FeatureArray, prior: FloatArray) -> Prediction:
        """Predict points from features of shape [points, names] and an analytical prior of shape [points].

        The prior may be NaN. Where it is minus infinity, so is the score.
        """
        count = len(self._samples)
        trust_in_carried = self._config.carried_samples * self._shared_features if self._carried else 0.0
        carried_weight = trust_in_carried / (trust_in_carried + count) if self._carried else 0.0
        trust_in_prior = self._config.prior_samples
        prior_weight = trust_in_prior / (trust_in_prior + count + 2 * trust_in_carried)
        score, spread = np.zeros(len(features)), np.zeros(len(features))
        build = np.full(len(features), np.nan)
        if self._carried is not None:
            trees, slow, columns = self._carried
            moved = _columns(features, columns)
            score = _standard(np.mean([one.predict(moved) for one in trees], axis=0))
            build = np.exp(slow.predict(moved)) if slow else build
        if self._speed:
            every = np.array([trees.predict(features) for trees in self._speed])
            scale = max(float(every.mean(axis=0).std()), 1e-6)
            spread = every.std(axis=0) / scale
            score = carried_weight * score + (1 - carried_weight) * _standard(every.mean(axis=0))
        elif self._carried is None:
            prior_weight = 1.0
        if self._build is not None:
            build = np.exp(self._build.predict(features))
        is_known = np.isfinite(prior)
        if is_known.any():
            known = np.where(is_known, prior, prior[is_known].mean())
            score = (1 - prior_weight) * score + prior_weight * _standard(known)
        return Prediction(np.where(np.isneginf(prior), -np.inf, score), spread, build)

    @property
    def typical_build_s(self) -> float:
        """Median build time so far, in seconds; NaN before the first."""
        built = [sample.build_s for sample in self._samples if sample.build_s > 0]
        return float(np.median(built)) if built else float("nan")

    def save(self) -> str | None:
        """The trees and their feature names as JSON text; None before the first training."""
        if not self._speed:
            return None
        slow = self._build.save() if self._build else None
        return json.dumps({"names": self.names, "speed": [trees.save() for trees in self._speed], "build": slow})

    def carry(self, text: str) -> None:
        """Start from trees that another model saved. Matches features by name.

        The weight of the trees is proportional to the share of this model's features that they have, and 0 if the share
        is small, because they then come from another kind of function.

        Raises:
            ValueError: the text is not the output of ``save``.
        """
        value = json.loads(text)
        if not isinstance(value, dict) or not value.get("speed") or not isinstance(value.get("names"), list):
            raise ValueError("not a saved cost model")
        place = {name: number for number, name in enumerate(self.names)}
        columns = np.array([place.get(name, -1) for name in value["names"]])
        slow = BoostedTrees.load(value["build"]) if value.get("build") else None
        speed = [BoostedTrees.load(trees) for trees in value["speed"]]
        self._shared_features = float((columns >= 0).sum()) / max(len(place), 1)
        if self._shared_features >= self._config.min_shared_features:
            self._carried = (speed, slow, columns)


def _labels_of(latencies_s: FloatArray) -> FloatArray:
    """Labels between 0 for a failure and 1 for the best: half throughput relative to the best, half rank.

    Throughput distinguishes slow candidates from fast ones; only ranks distinguish fast ones, which differ by a few
    percent.
    """
    order = np.unique(latencies_s[np.isfinite(latencies_s)])
    rank = np.searchsorted(order, latencies_s) / max(len(order), 1)
    return np.asarray(0.5 * order.min() / latencies_s + 0.5 * (1.0 - np.minimum(rank, 1.0)))


def _columns(features: FeatureArray, columns: np.ndarray) -> FeatureArray:
    moved = np.full((len(features), len(columns)), np.nan, np.float32)
    known = columns >= 0
    moved[:, known] = features[:, columns[known]]
    return moved


def _standard(values: FloatArray) -> FloatArray:
    """Standardised to mean 0 and standard deviation 1."""
    deviation = float(values.std())
    return (values - values.mean()) / deviation if deviation > 0 else np.zeros_like(values)
