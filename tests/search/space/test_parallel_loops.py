"""The predicted parallel loop is the one that the compiler generates."""

import re

import numpy as np
import pytest
import tvm

from tests.search.conftest import te_workload
from tests.search.script_loops import iterations_around
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.features.features import FeatureExtractor
from tunefarm_search.model.population import GeneticOperators, features_of
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import search_space
from tunefarm_search.tvm.serialization import load_json

PARALLEL = re.compile(r"T\.parallel\((\d+)")


def threads_share(module: tvm.IRModule) -> int:
    """Iterations of the parallel loop around the update of a sum; 1 if there is none."""
    return iterations_around(module, PARALLEL, lambda line: "_update" in line and "sblock(" in line)


@pytest.mark.parametrize("name", ["GMM", "C2D", "DEP"])
@pytest.mark.quick_cases(1)
def test_parallel_extent_matches_prediction(name: str, target: Target) -> None:
    space = search_space(load_json(te_workload(name).module_json), target, "stable", Space())
    scheduler, random = Scheduler(space), np.random.default_rng(2)
    extractor = FeatureExtractor(space)
    place = extractor.names.index("loops0.parallel")
    seen: set[int] = set()
    for sketch in space.sketches:
        points = [Point(sketch.number, tuple(row.tolist())) for row in sketch.sample(random, 16)]
        features, _ = features_of(GeneticOperators(space.sketches, random).of_points(points), space.sketches, extractor)
        for point, foreseen in zip(points, 2.0 ** features[:, place], strict=True):
            scheduled = scheduler.apply(point)
            if isinstance(scheduled, Scheduled) and scheduled.point == point:
                shared = threads_share(scheduler.module_of(scheduled.trace))
                assert shared == round(float(foreseen)), point
                seen.add(shared)
    assert len(seen) > 8
