"""The analytical estimate compared with recorded latencies, and its cost of copies versus the compiler's loops."""

import re

import numpy as np
import numpy.typing as npt
import pytest
import tvm

from tests.search.conftest import te_workload
from tests.search.script_loops import iterations_around
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.features.features import FeatureExtractor
from tunefarm_search.model.population import GeneticOperators, features_of
from tunefarm_search.replay.replay_table import ReplayTable
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import search_space

LOOP = re.compile(r"in (?:T\.grid\(([\d, ]+)\)|(?:T\.(?:parallel|vectorized|serial|unroll)|range)\((\d+)[,)])")


def estimated(table: ReplayTable) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The estimate of each recorded point, higher for faster, and its latency in seconds."""
    space = search_space(tvm.ir.load_json(table.module_json), table.target, "stable", table.space)
    scheduler, extractor = Scheduler(space), FeatureExtractor(space)
    points, latencies = [], []
    for trace, trial in zip(table.traces(), table.trials, strict=True):
        point = scheduler.point_of(trace)
        if point is not None and trial.latency_s is not None:
            points.append(point)
            latencies.append(trial.latency_s)
    population = GeneticOperators(space.sketches, np.random.default_rng(0)).of_points(points)
    return features_of(population, space.sketches, extractor)[1], np.array(latencies)


def rank_correlation(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> float:
    """Spearman's, from -1 to 1."""
    return float(np.corrcoef(first.argsort().argsort(), second.argsort().argsort())[0, 1])


@pytest.mark.parametrize(
    ("name", "all_of_them", "the_good", "first"),
    [("convolution_table", 0.8, 0.5, 5), ("pool_table", 0.6, 0.2, 20), ("transposed_convolution_table", 0.6, 0.0, 5)],
)
def test_prior_separates_fast_from_slow_schedules(
    name: str, all_of_them: float, the_good: float, first: int, request: pytest.FixtureRequest
) -> None:
    """Also ranks candidates within 1.5 times the best, and one of its ``first`` candidates is nearly the best."""
    prior, latencies = estimated(request.getfixturevalue(name))
    good = latencies < 1.5 * latencies.min()
    assert rank_correlation(prior, -latencies) > all_of_them
    assert rank_correlation(prior[good], -latencies[good]) > the_good
    assert latencies[np.argsort(-prior)[:first]].min() < 1.05 * latencies.min()


def test_cost_includes_recomputation_by_producers(target: Target) -> None:
    space = search_space(tvm.ir.load_json(te_workload("C2D").module_json), target, "stable", Space())
    scheduler, random, extractor = Scheduler(space), np.random.default_rng(4), FeatureExtractor(space)
    place, channels, seen = extractor.names.index("loops0.copied"), 3, set()
    for sketch in space.sketches:
        points = [Point(sketch.number, tuple(row.tolist())) for row in sketch.sample(random, 24)]
        features, _ = features_of(GeneticOperators(space.sketches, random).of_points(points), space.sketches, extractor)
        (location,) = (number for number, column in enumerate(sketch.columns) if column.kind == "location")
        for point, foreseen in zip(points, 2.0 ** features[:, place], strict=True):
            is_inlined = sketch.columns[location].table[point.rows[location], 0] == -2
            scheduled = scheduler.apply(point)
            if is_inlined or not isinstance(scheduled, Scheduled) or scheduled.point != point:
                continue
            module = scheduler.module_of(scheduled.trace)
            elements = iterations_around(module, LOOP, lambda line: 'sblock("PadInput")' in line)
            # Each vector holds the channels that the loop reads: one or all three.
            assert elements / foreseen == pytest.approx(1) or elements / foreseen == pytest.approx(channels), point
            seen.add(elements)
    assert len(seen) > 8


def test_cost_prefers_inlined_padding_to_copies_in_loops(target: Target) -> None:
    """Tiles and locations of a depthwise convolution; 33 to 36 us against 51 to 62 us on two cores of a Zen 4."""
    space = search_space(tvm.ir.load_json(te_workload("DEP").module_json), target, "stable", Space())
    sketch = space.sketches[0]
    fast: list[tuple[object, ...]] = [
        ([1] * 4, [56, 1, 2, 1], [28, 1, 4, 1], [2, 1, 1, 16], [3, 1], [3, 1], 3, -2),
        ([1] * 4, [14, 2, 2, 2], [2, 56, 1, 1], [1, 2, 16, 1], [1, 3], [3, 1], 3, 9),
        ([1] * 4, [2, 14, 2, 2], [14, 4, 1, 2], [1, 2, 1, 16], [1, 3], [3, 1], 2, -2),
    ]
    slow: list[tuple[object, ...]] = [
        ([1] * 4, [2, 14, 4, 1], [28, 4, 1, 1], [1, 2, 1, 16], [1, 3], [1, 3], 1, 1),
        ([1] * 4, [1, 16, 7, 1], [2, 28, 1, 2], [1, 2, 1, 16], [3, 1], [1, 3], 2, 2),
        ([1] * 4, [14, 4, 1, 2], [7, 8, 2, 1], [2, 1, 16, 1], [3, 1], [3, 1], 3, 3),
    ]
    rows = [
        sketch.row_of({column.instruction: value for column, value in zip(sketch.columns, decided, strict=True)})
        for decided in fast + slow
    ]
    _, prior = FeatureExtractor(space).features(sketch.number, np.array(rows, np.int32))
    assert prior[: len(fast)].min() > prior[len(fast) :].max()
