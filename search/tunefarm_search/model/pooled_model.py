"""One cost model over several explorations of a target: what their shapes have in common."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tvm

from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space
from tunefarm_schemas.tuning.workload import Abi
from tunefarm_search.features.features import FeatureExtractor
from tunefarm_search.model.boosting import BoostedTrees, FeatureArray, FloatArray
from tunefarm_search.model.cost_model import SPEED_TREES, Sample, labels_of, sample_of
from tunefarm_search.model.population import Breeder, features_of
from tunefarm_search.ports import KnownTrial
from tunefarm_search.space.scheduling import Scheduler
from tunefarm_search.space.space import search_space

MIN_SAMPLES = 8
"""An exploration with fewer timed samples says nothing about what is fast."""
ROUNDS = 48
DEPTH = 6


@dataclass(frozen=True)
class PooledExploration:
    """One exploration with its trials. ``module_json`` is TVM's JSON of the workload's module."""

    module_json: str
    target: Target
    abi: Abi
    space: Space
    known: tuple[KnownTrial, ...]


@dataclass(frozen=True)
class _Learned:
    """Features of shape [samples, names], labels between 0 and 1, and build times in seconds of one exploration."""

    names: tuple[str, ...]
    features: FeatureArray
    labels: FloatArray
    builds_s: FloatArray


def pooled_model(explorations: Sequence[PooledExploration], seed: int = 0) -> str | None:
    """A model over all of them, in the form that ``CostModel.carry`` takes; None where too little is known.

    Each exploration's labels are relative to its own best, so that small and large functions count alike; features are
    put together by name, with NaN where an exploration has none of that name. Explorations weigh the same, however
    many samples they have.
    """
    learned = [found for exploration in explorations if (found := _learned(exploration)) is not None]
    if not learned:
        return None
    names = tuple(dict.fromkeys(name for one in learned for name in one.names))
    features = np.concatenate([_placed(one, names) for one in learned])
    labels = np.concatenate([one.labels for one in learned])
    builds_s = np.concatenate([one.builds_s for one in learned])
    largest = max(len(one.labels) for one in learned)
    shares = np.concatenate([np.full(len(one.labels), largest / len(one.labels)) for one in learned])
    speed = [
        BoostedTrees.fit(features, labels, rounds=ROUNDS, depth=DEPTH, seed=seed + n, weights=shares * (0.3 + labels))
        for n in range(SPEED_TREES)
    ]
    built = builds_s > 0
    slow = None
    if built.any():
        slow = BoostedTrees.fit(features[built], np.log(builds_s[built]), rounds=16, depth=4, seed=seed)
    return json.dumps(
        {"names": names, "speed": [trees.save() for trees in speed], "build": slow.save() if slow else None}
    )


def _learned(exploration: PooledExploration) -> _Learned | None:
    space = search_space(
        tvm.ir.load_json(exploration.module_json), exploration.target, exploration.abi, exploration.space
    )
    scheduler = Scheduler(space)
    placed = [(scheduler.point_of(trial.candidate.trace), trial) for trial in exploration.known]
    points = [point for point, _ in placed if point is not None]
    samples = [sample_of(trial.result, trial.build_s) for point, trial in placed if point is not None]
    if sum(_is_timed(sample) for sample in samples) < MIN_SAMPLES:
        return None
    extractor = FeatureExtractor(space)
    population = Breeder(space.sketches, np.random.default_rng(0)).of_points(points)
    features, _ = features_of(population, space.sketches, extractor)
    return _Learned(
        names=extractor.names,
        features=features,
        labels=labels_of(np.array([sample.latency_s for sample in samples])),
        builds_s=np.array([sample.build_s for sample in samples]),
    )


def _is_timed(sample: Sample) -> bool:
    return np.isfinite(sample.latency_s) and not sample.is_censored


def _placed(one: _Learned, names: tuple[str, ...]) -> FeatureArray:
    """The features in the columns of ``names``."""
    place = {name: number for number, name in enumerate(names)}
    wide = np.full((len(one.features), len(names)), np.nan, np.float32)
    wide[:, [place[name] for name in one.names]] = one.features
    return wide
