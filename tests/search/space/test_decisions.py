import math
import re

import numpy as np
import pytest
from tvm.s_tir.analysis import estimate_tir_flops

from tests.search.conftest import te_workload
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.model.population import GeneticOperators
from tunefarm_search.space.factorization import MAX_ROWS, factorizations, prime_powers
from tunefarm_search.space.scheduling import MAX_REPEATED, Point, Rejected, Scheduled, Scheduler
from tunefarm_search.space.space import SearchSpace, search_space
from tunefarm_search.tvm.serialization import load_json

TE_WORKLOADS = ("C1D", "C2D", "C3D", "GMM", "GRP", "DIL", "DEP", "T2D", "CAP", "NRM", "SFM", "CBR", "TBG")


def test_factorizations_are_complete_within_innermost_limit() -> None:
    tiles = factorizations(12, 3, max_innermost=4)
    expected = {(a, b, 12 // (a * b)) for a in range(1, 13) for b in range(1, 13) if 12 % (a * b) == 0}
    assert {tuple(row) for row in tiles.rows.tolist()} == {row for row in expected if row[-1] <= 4}


def test_neighbours_move_one_prime_between_levels() -> None:
    tiles = factorizations(96, 3, max_innermost=32)
    table, counts = tiles.neighbours
    for number, row in enumerate(tiles.rows):
        near = tiles.rows[table[number, : counts[number]]]
        assert len({tuple(other) for other in near.tolist()}) == counts[number] > 0
        for other in near:
            ratio = sorted(float(r) for r in other / row if r != 1)
            assert len(ratio) == 2
            assert math.isclose(ratio[0] * ratio[1], 1.0)
            assert ratio[1] in {2.0, 3.0}


def test_factorizations_of_large_extent_are_sampled() -> None:
    extent = 2**10 * 3**5 * 5**3
    tiles = factorizations(extent, 4, max_innermost=64)
    assert 100 < len(tiles.rows) <= MAX_ROWS
    assert (tiles.rows.prod(axis=1) == extent).all()
    assert tiles.rows[:, -1].max() <= 64


def test_prime_powers_multiply_to_the_number() -> None:
    for number in (1, 2, 97, 360, 2 * 7919):
        assert math.prod(prime**power for prime, power in prime_powers(number)) == number


def test_samples_mutants_and_neighbours_stay_in_grid(convolution_space: SearchSpace) -> None:
    random = np.random.default_rng(1)
    for sketch in convolution_space.sketches:
        points = sketch.sample(random, 200)
        mutants = sketch.mutate(random, points, 0.2)
        near = sketch.neighbours(points[0])
        for rows in (points, mutants, near):
            assert (rows >= 0).all()
            assert (rows < sketch.sizes).all()
        assert (mutants != points).any(axis=1).mean() > 0.9
        assert ((near != points[0]).sum(axis=1) == 1).all()


def test_one_decision_apart_is_every_other_row_of_each_column(convolution_space: SearchSpace) -> None:
    for sketch in convolution_space.sketches:
        start = sketch.sample(np.random.default_rng(4), 1)[0]
        apart = sketch.one_decision_apart(start, max_rows=int(sketch.sizes.max()))
        changed = (apart != start).sum(axis=1)
        assert len(apart) == sketch.sizes.sum()
        assert (changed == 0).sum() == len(sketch.columns)
        assert changed.max() == 1
        others = {tuple(row) for row in apart[changed == 1].tolist()}
        assert len(others) == (sketch.sizes - 1).sum()
        assert {tuple(row) for row in sketch.neighbours(start).tolist()} <= others
        some = {tuple(row) for row in sketch.one_decision_apart(start, max_rows=7).tolist()}
        assert len(sketch.columns) < len(some) <= 7 * len(sketch.columns)
        assert some <= others | {tuple(start.tolist())}


def test_transplant_keeps_tiles_of_shared_loops(convolution_space: SearchSpace) -> None:
    sketches = convolution_space.sketches
    operators = GeneticOperators(sketches, np.random.default_rng(2))
    point = Point(0, tuple(sketches[0].sample(np.random.default_rng(5), 1)[0].tolist()))
    tiles = {
        column.slot: column.decision(row)
        for column, row in zip(sketches[0].columns, point.rows, strict=True)
        if column.kind == "tile"
    }
    moved = operators.transplants(point)
    assert sorted(moved.sketch.tolist()) == [sketch.number for sketch in sketches[1:]]
    for number in range(len(moved)):
        there = moved.point(number, sketches)
        kept = {
            column.slot: column.decision(row)
            for column, row in zip(sketches[there.sketch].columns, there.rows, strict=True)
            if column.slot in tiles
        }
        assert kept == {slot: tiles[slot] for slot in kept} != {}


def test_every_neighbour_has_a_schedule(matmul_space: SearchSpace) -> None:
    scheduler = Scheduler(matmul_space)
    sketch = matmul_space.sketches[0]
    start = sketch.sample(np.random.default_rng(3), 1)[0]
    for row in sketch.neighbours(start)[::4]:
        applied = scheduler.apply(Point(0, tuple(row.tolist())))
        assert isinstance(applied, Scheduled)
        assert applied.point == Point(0, tuple(row.tolist()))


def test_trace_maps_to_its_point_and_replays(convolution_space: SearchSpace) -> None:
    scheduler = Scheduler(convolution_space)
    random = np.random.default_rng(5)
    for sketch in convolution_space.sketches:
        applied = scheduler.apply(Point(sketch.number, tuple(sketch.sample(random, 1)[0].tolist())))
        assert isinstance(applied, Scheduled)
        assert scheduler.point_of(applied.trace) == applied.point
        replayed = scheduler.replay(applied.trace)
        assert isinstance(replayed, Scheduled)
        assert replayed.module_hash == applied.module_hash


@pytest.mark.parametrize("name", TE_WORKLOADS)
@pytest.mark.quick_cases(3)
def test_tvm_workloads_have_spaces_with_valid_points(name: str, target: Target) -> None:
    space = search_space(load_json(te_workload(name).module_json), target, "stable", Space())
    scheduler, random = Scheduler(space), np.random.default_rng(0)
    fitting = [
        scheduler.apply(Point(sketch.number, tuple(row)))
        for sketch in space.sketches
        for row in sketch.sample(random, 3).tolist()
    ]
    assert any(isinstance(applied, Scheduled) for applied in fitting)
    reasons = {applied.reason for applied in fitting if isinstance(applied, Rejected)}
    assert reasons <= ({"postprocessor", "repeated_arithmetic"} if name == "SFM" else {"postprocessor"})


def test_scheduler_rejects_repeated_arithmetic(target: Target) -> None:
    module = load_json(te_workload("SFM").module_json)
    space = search_space(module, target, "stable", Space())
    scheduler, random = Scheduler(space), np.random.default_rng(0)
    points = [Point(s.number, tuple(row)) for s in space.sketches for row in s.sample(random, 10).tolist()]
    applied = [scheduler.apply(point) for point in points]
    left_out = [one for one in applied if isinstance(one, Rejected) and one.reason == "repeated_arithmetic"]
    kept = [estimate_tir_flops(scheduler.module_of(one.trace)) for one in applied if isinstance(one, Scheduled)]
    assert left_out
    assert re.fullmatch(r"does \d{3,} times the arithmetic of the function", left_out[0].message)
    once = estimate_tir_flops(module)
    assert max(kept) <= MAX_REPEATED * once
    assert max(kept) > 50 * once, "what the compiler may take out of a loop is measured"
