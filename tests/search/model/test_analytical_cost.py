"""The analytical estimate compared with recorded latencies, and its cost of copies versus the compiler's loops."""

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
import tvm
from tvm import te, topi
from tvm.s_tir.meta_schedule.testing import te_workload as te_workloads

from tests.search.conftest import te_workload
from tests.search.script_loops import iterations_around
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.features.features import FeatureExtractor
from tunefarm_search.model.population import GeneticOperators, features_of
from tunefarm_search.replay.replay_table import ReplayTable
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import SearchSpace, search_space
from tunefarm_search.tvm.serialization import load_json

LOOP = re.compile(r"in (?:T\.grid\(([\d, ]+)\)|(?:T\.(?:parallel|vectorized|serial|unroll)|range)\((\d+)[,)])")


def estimated(table: ReplayTable) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The estimate of each recorded point, higher for faster, and its latency in seconds."""
    space = search_space(load_json(table.module_json), table.target, "stable", table.space)
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
    [("convolution_table", 0.8, 0.5, 8), ("pool_table", 0.6, 0.2, 20), ("transposed_convolution_table", 0.6, 0.0, 20)],
)
@pytest.mark.quick_cases(2)
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
    space = search_space(load_json(te_workload("C2D").module_json), target, "stable", Space())
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


def priors(space: SearchSpace, sketch: int, points: Sequence[tuple[object, ...]]) -> npt.NDArray[np.float64]:
    """The prior of points of one sketch, given by their decisions."""
    grid = space.sketches[sketch]
    rows = [
        grid.row_of({column.instruction: value for column, value in zip(grid.columns, decided, strict=True)})
        for decided in points
    ]
    return FeatureExtractor(space).features(sketch, np.array(rows, np.int32))[1]


def estimates(function: object, target: Target, sketch: int, points: Sequence[tuple[object, ...]]) -> list[float]:
    """Estimated cycles of points of one sketch."""
    space = search_space(tvm.IRModule({"main": function}), target, "stable", Space())
    return [2.0**-prior for prior in priors(space, sketch, points)]


def test_cost_prefers_inlined_padding_to_copies_in_loops(target: Target) -> None:
    """Tiles and locations of a depthwise convolution; up to 36 us against 51 to 62 us on two cores of a Zen 4."""
    space = search_space(load_json(te_workload("DEP").module_json), target, "stable", Space())
    fast: list[tuple[object, ...]] = [
        ([1] * 4, [14, 2, 2, 2], [2, 56, 1, 1], [1, 2, 16, 1], [1, 3], [3, 1], 3, 9),
        ([1] * 4, [2, 14, 2, 2], [14, 4, 1, 2], [1, 2, 1, 16], [1, 3], [3, 1], 2, -2),
    ]
    slow: list[tuple[object, ...]] = [
        ([1] * 4, [2, 14, 4, 1], [28, 4, 1, 1], [1, 2, 1, 16], [1, 3], [1, 3], 1, 1),
        ([1] * 4, [1, 16, 7, 1], [2, 28, 1, 2], [1, 2, 1, 16], [3, 1], [1, 3], 2, 2),
        ([1] * 4, [14, 4, 1, 2], [7, 8, 2, 1], [2, 1, 16, 1], [3, 1], [3, 1], 3, 3),
    ]
    prior = priors(space, 0, fast + slow)
    assert prior[: len(fast)].min() > prior[len(fast) :].max()


def test_cost_includes_rows_that_evict_each_other(target: Target) -> None:
    """All 768 rows of weights, 12 KiB apart, share few sets of a cache: 25 ms against 3.8 ms on one core of a Xeon."""
    product = te.create_prim_func(te_workloads.matmul(128, 3072, 768))
    slow, fast = estimates(
        product,
        target,
        0,
        [([8, 8, 2, 1], [48, 2, 1, 32], [96, 8], 2), ([1, 1, 32, 4], [1, 8, 6, 64], [16, 48], 1)],
    )
    assert slow > 1.1 * fast


def pointwise(channels: int, summed_channels: int, size: int, *, is_channels_last: bool = False) -> object:
    """A 1x1 convolution of ``size`` by ``size`` places, and a block after it."""

    def pixel(channel: object, y: object, x: object) -> tuple[object, ...]:
        return (y, x, channel) if is_channels_last else (channel, y, x)

    def weight(channel: object, summed_channel: object) -> tuple[object, ...]:
        return (summed_channel, channel) if is_channels_last else (channel, summed_channel)

    def product(*at: object) -> object:
        y, x, channel = at if is_channels_last else (*at[1:], at[0])
        return te.sum(values[pixel(summed, y, x)] * weights[weight(channel, summed)], summed)

    values = te.placeholder(pixel(summed_channels, size, size), name="values")
    weights = te.placeholder(weight(channels, summed_channels), name="weights")
    summed = te.reduce_axis((0, summed_channels), name="summed")
    products = te.compute(pixel(channels, size, size), product, name="products")
    shifted = te.compute(products.shape, lambda *at: products(*at) + 1.0, name="shifted")
    return te.create_prim_func([values, weights, shifted])


def convolution(channels: int, summed_channels: int, size: int, window: int, stride: int) -> object:
    values = te.placeholder((1, summed_channels, size, size), name="values")
    weights = te.placeholder((channels, summed_channels, window, window), name="weights")
    return te.create_prim_func(
        [values, weights, topi.nn.conv2d_nchw(values, weights, stride, window // 2, 1, "float32")]
    )


def test_cost_foresees_results_that_stay_in_memory(target: Target) -> None:
    """Two rows of 14 results are read as one vector of 28: 2.5 ms against 0.08 ms on one core of a Xeon."""
    slow, fast = estimates(
        pointwise(64, 384, 14),
        target,
        1,
        [
            ([1, 8, 2, 4], [1, 7, 2, 1], [1, 1, 1, 14], [384, 1], 2),
            ([1, 4, 1, 16], [1, 14, 1, 1], [1, 1, 1, 14], [384, 1], 2),
        ],
    )
    assert slow > 3 * fast


def test_cost_includes_the_pass_of_a_block_outside_of_the_tiles(target: Target) -> None:
    """The same tiles with the last block outside and inside of them: 0.51 and 0.25 ms on one core of a Xeon.

    The block outside is vectorised by 40 elements, which LLVM takes apart.
    """
    tiles = ([1, 4, 4, 4], [2, 10, 2, 1], [4, 1, 1, 10], [64, 1], 2)
    (outside,) = estimates(pointwise(64, 64, 40), target, 0, [tiles])
    (inside,) = estimates(pointwise(64, 64, 40), target, 2, [tiles])
    assert outside > 1.2 * inside


def biased_tiles(count: int) -> object:
    """Sums over 80 inputs at 14 x 14 pixels, with ``count`` tiles of 16 columns, a bias, and a product behind."""
    values, biases = te.placeholder((14, 14, 80), name="values"), te.placeholder((count, 16), name="biases")
    weights = te.placeholder((count, 80, 16), name="weights")
    summed = te.reduce_axis((0, 80), name="summed")
    sums = te.compute(
        (14, 14, count, 16), lambda y, x, tile, lane: te.sum(values[y, x, summed] * weights[tile, summed, lane], summed)
    )
    shifted = te.compute(sums.shape, lambda y, x, tile, lane: sums[y, x, tile, lane] + biases[tile, lane])
    return te.create_prim_func([values, weights, biases, te.compute(sums.shape, lambda *at: shifted(*at) * 2.0)])


def test_cost_includes_indices_of_a_bias_that_vectors_straddle(target: Target) -> None:
    """Vectors of 64 columns end with rows of 512 columns, but not of 480: 417 us for those, 285 inside of the tiles."""

    def outside_and_inside(count: int) -> list[float]:
        tiles = ([7, 1, 1, 2], [1, 7, 1, 2], [count, 1, 1, 1], [1, 1, 1, 16], [2, 40], 2)
        return [float(estimates(biased_tiles(count), target, sketch, [tiles])[0]) for sketch in (0, 1)]

    straddling, ending = outside_and_inside(30), outside_and_inside(32)
    assert straddling[0] > 1.3 * straddling[1]
    assert ending[0] < 1.2 * ending[1]


def test_cost_includes_results_that_the_next_block_reads_from_memory(target: Target) -> None:
    """The next block reads 392 vectors at a time, or 14, which stay in registers: 270 and 176 us on a Zen 4."""
    many = ([8, 1, 7, 2], [8, 2, 1, 7], [1, 3, 1, 32], [1, 16], 2)
    few = ([112, 1, 1, 1], [1, 8, 2, 7], [1, 6, 1, 16], [1, 16], 2)
    slow, fast = estimates(pointwise(96, 16, 112, is_channels_last=True), target, 1, [many, few])
    assert slow > 1.05 * fast


def test_cost_includes_the_start_of_another_parallel_loop(target: Target) -> None:
    """Blocks of 14 vectors in the next block's own loop, and in the loops of the sums: 75 and 64 us on a Zen 4."""
    tiles = ([14, 1, 1, 1], [1, 1, 1, 14], [3, 2, 1, 16], [8, 48], 2)
    function = pointwise(96, 384, 14, is_channels_last=True)
    (outside,) = estimates(function, target, 0, [tiles])
    (inside,) = estimates(function, target, 1, [tiles])
    assert outside > 1.02 * inside


def test_cost_counts_loads_of_all_vectors_in_a_row(target: Target) -> None:
    """Seven vectors of a row with stride 2 are gathered, or one for eight channels: 16.9 and 4.2 ms on a Xeon."""
    slow, fast = estimates(
        convolution(64, 3, 224, 7, 2),
        target,
        0,
        [
            ([1] * 4, [32, 1, 2, 1], [4, 28, 1, 1], [1, 1, 7, 16], [1, 3], [7, 1], [7, 1], 2, -1),
            ([1] * 4, [8, 1, 8, 1], [4, 28, 1, 1], [1, 7, 1, 16], [1, 3], [7, 1], [7, 1], 2, -1),
        ],
    )
    assert slow > 2 * fast


def test_cost_includes_results_that_leave_registers_around_a_copy(target: Target) -> None:
    """Padding is copied in a loop of the reduction, or before all loops: 8.3 and 3.3 ms on one core of a Xeon."""
    tiles = ([1] * 4, [16, 2, 1, 16], [1, 7, 1, 1], [1, 1, 1, 7], [512, 1], [1, 3], [1, 3], 1)
    slow, fast = estimates(convolution(512, 512, 7, 3, 1), target, 0, [(*tiles, 14), (*tiles, -1)])
    assert slow > 1.5 * fast


def test_cost_expects_no_vector_outside_of_a_reduction(target: Target) -> None:
    """Neighbours in a loop outside of the reduction, even of one step, are computed one by one: 12 times as long."""
    space = search_space(tvm.IRModule({"main": pointwise(256, 128, 14)}), target, "stable", Space())
    grid, extractor = space.sketches[0], FeatureExtractor(space)
    rows = [
        grid.row_of(dict(zip((c.instruction for c in grid.columns), decided, strict=True)))
        for decided in (([16, 1, 16, 1], [14, 1, 1, 1], place, [128, 1], 2) for place in ([1, 1, 14, 1], [1, 1, 1, 14]))
    ]
    features, _ = extractor.features(0, np.array(rows, np.int32))
    vectors = 2.0 ** features[:, extractor.names.index("loops0.fused_vector")]
    assert vectors.round().tolist() == [1, 14]
