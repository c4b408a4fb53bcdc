"""The estimate for GPUs, compared with times on one H200."""

import numpy as np
import pytest

from tests.workers import workloads
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.features.features import FeatureExtractor
from tunefarm_search.space.decisions import SketchSpace
from tunefarm_search.space.scheduling import Point, Rejected, Scheduled, Scheduler
from tunefarm_search.space.space import SearchSpace, search_space
from tunefarm_search.tvm.target import canonical_target
from tunefarm_workers.cuda.gpu_facts import facts_of
from tunefarm_workers.cuda.gpu_target import target_of_gpu

FACTS = facts_of("NVIDIA H200, GPU-1, 9.0, 143771, 580.159.04, 345, 31\n", 0)
MEASURED_US = {
    106.2: ([32, 4, 2, 4, 1], [32, 1, 32, 1, 1], [64, 1, 16], 0, 2, 3),
    339.1: ([2, 2, 128, 2, 1], [32, 1, 1, 1, 32], [128, 8, 1], 3, 0, 6),
    2579.3: ([8, 2, 32, 1, 2], [2, 1, 32, 8, 2], [128, 4, 2], 1, 3, 1),
    11515.9: ([4, 2, 4, 1, 32], [4, 1, 64, 4, 1], [64, 4, 4], 0, 0, 5),
    25250.4: ([2, 2, 2, 32, 4], [4, 4, 32, 2, 1], [1024, 1, 1], 0, 2, 1),
    397273.5: ([1, 256, 4, 1, 1], [2, 1, 8, 64, 1], [512, 2, 1], 1, 2, 7),
}
"""Times of schedules of a product of 1024 x 1024 x 1024, whose copies to shared memory are waited for."""


@pytest.fixture(scope="module")
def space() -> SearchSpace:
    target = canonical_target(target_of_gpu(FACTS)).target
    return search_space(workloads.matmul(1024), target, "stable", Space())


@pytest.fixture(scope="module")
def plain(space: SearchSpace) -> SketchSpace:
    """The sketch without copies that run ahead."""
    return next(each for each in space.sketches if "software_pipeline" not in each.steps.sketch.text)


def test_estimate_orders_measured_schedules(space: SearchSpace, plain: SketchSpace) -> None:
    rows = []
    for decisions in MEASURED_US.values():
        named = {column.instruction: each for column, each in zip(plain.columns, decisions, strict=True)}
        row = plain.row_of(named)
        assert row is not None
        rows.append(row)
    _, prior = FeatureExtractor(space).features(plain.number, np.array(rows, np.int32))
    assert list(-prior) == sorted(-prior)


def test_points_beyond_the_limits_of_a_block_are_no_schedules(space: SearchSpace, plain: SketchSpace) -> None:
    rows = plain.sample(np.random.default_rng(3), 200)
    features, prior = FeatureExtractor(space).features(plain.number, rows)
    assert not np.isinf(features).any()
    scheduler = Scheduler(space)
    beyond, within = np.flatnonzero(np.isneginf(prior)), np.flatnonzero(np.isfinite(prior))
    assert len(beyond)
    assert len(within)
    for number in beyond[:6]:
        assert isinstance(scheduler.apply(Point(plain.number, tuple(rows[number].tolist()))), Rejected)
    for number in within[:3]:
        assert isinstance(scheduler.apply(Point(plain.number, tuple(rows[number].tolist()))), Scheduled)
