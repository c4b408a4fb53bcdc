"""Schedules without a trial: correct for every function, and fast for the kinds that TVM leaves slow."""

import json
import math
import multiprocessing
import re
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import te, topi

from tests.search.conftest import te_workload
from tests.search.untried.small_functions import EXTENTS, KINDS, largest_difference, module_of
from tunefarm_schemas.tuning.target import Target
from tunefarm_search.tvm import loading
from tunefarm_search.tvm.operation_count import floating_point_operations
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import host_target, tvm_target, vector_bytes
from tunefarm_search.untried.untried_schedule import untried_schedule
from tunefarm_search.validation.judged_schedule import judged_schedule
from tunefarm_workers.builder.scheduled_module import build_in_place

SHAPES = [tuple(int(each) for each in np.random.default_rng(seed).choice(EXTENTS, 3)) for seed in range(2)]
EACH_SHAPE = [(1, 1, 1), SHAPES[0], *(pytest.param(shape, marks=pytest.mark.faults) for shape in SHAPES[1:])]


@pytest.fixture(scope="module")
def elsewhere() -> ProcessPoolExecutor:
    """A process for kernels: one that ran a parallel kernel cannot fork children that run others."""
    # It loads TVM without torch, which takes longer than the kernels.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), loading.load) as pool:
        yield pool


@pytest.mark.parametrize("extents", EACH_SHAPE)
@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.quick_cases(6)
def test_untried_schedule_keeps_results(
    kind: str, extents: tuple[int, int, int], elsewhere: ProcessPoolExecutor
) -> None:
    assert elsewhere.submit(largest_difference, kind, extents).result() < 1e-4


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.quick_cases(4)
def test_trace_of_untried_schedule_gives_its_module(kind: str, target: Target) -> None:
    module = module_of(kind, (2, 28, 28))
    found = untried_schedule(module, target)
    replayed = judged_schedule(module, json.loads(found.trace.text), callees=frozenset(), seed=1)
    assert tvm_ffi.structural_equal(replayed.mod, found.module)


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        ("softmax", "rows"),
        ("depthwise", "rows"),
        ("windows_with_silu", "windows"),
        ("maximum_of_pixels", "windows"),
        ("convolution", "tiles"),
        ("matmul_with_bias", "tiles"),
    ],
)
@pytest.mark.quick_cases(4)
def test_untried_schedule_vectorises_in_the_way_of_the_kind(kind: str, way: str, target: Target) -> None:
    found = untried_schedule(module_of(kind, (64, 64, 64)), target)
    assert found.way == way
    assert "T.vectorized" in found.module.script()
    assert "T.parallel" in found.module.script()


@pytest.mark.parametrize("kind", ["softmax_of_channels", "norm_of_channels", "group_norm"])
def test_rows_are_computed_once(kind: str, target: Target) -> None:
    module = module_of(kind, (2, 21, 64))
    found = untried_schedule(module, target)
    assert found.way == "rows"
    assert floating_point_operations(found.module) < 2 * floating_point_operations(module)


def test_rows_are_copied_to_whole_vectors_once(target: Target) -> None:
    script = untried_schedule(module_of("softmax_of_padded_rows", (3, 197, 59)), target).module.script()
    assert script.count("T.if_then_else") == 1


def test_concatenated_rows_are_copied_in_vectors(target: Target) -> None:
    found = untried_schedule(module_of("concatenated_rows", (2, 3, 64)), target)
    code = build_in_place(found.module, tvm_target(target)).inspect_source("ll")
    assert code.count("store <") > 2 * code.count("store float")


@pytest.mark.parametrize(("elements", "widths"), [(1000, {8}), (768, {32, 64}), (100, {4}), (98, {7, 14})])
@pytest.mark.quick_cases(3)
def test_partial_sums_are_whole_vectors(elements: int, widths: set[int], target: Target) -> None:
    found = widths_of_partial_sums(module_of("softmax", (64, 64, elements)), target)
    assert found
    assert {max(each) for each in found} <= widths


@pytest.mark.parametrize("rows", [(1, 197), (64, 64)])
def test_partial_sums_are_added_half_to_half(rows: tuple[int, int], target: Target) -> None:
    found = widths_of_partial_sums(module_of("softmax", (*rows, 768)), target)
    lanes = vector_bytes(target) // 4
    assert len(found) == 2
    for widths in found:
        registers = [width for width in sorted(widths) if width <= lanes]
        assert registers == [2**power for power in range(1, lanes.bit_length())]


def widths_of_partial_sums(module: Any, target: Target) -> list[list[int]]:
    """For each reduction of an untried schedule: how many partial results each step has."""
    script = untried_schedule(module, target).module.script()
    found: dict[str, list[int]] = {}
    for name, shape in re.findall(r"(\w+)_rf(?:_\d+)? = T.sblock_alloc_buffer\(\((.*?)\)\)", script):
        found.setdefault(name, []).append(int(re.findall(r"\d+", shape.replace("int64", ""))[-1]))
    return list(found.values())


@pytest.mark.parametrize(("axes", "at_once"), [((50, 30), 6), ((12, 197), 6), ((1, 197), None), ((48, 49), 8)])
@pytest.mark.quick_cases(3)
def test_several_rows_are_added_at_once(axes: tuple[int, int], at_once: int | None, target: Target) -> None:
    """The last additions of a row depend on each other, and so do not fill the processor."""
    schedule = tvm.s_tir.Schedule(untried_schedule(module_of("layer_norm", (*axes, 384)), target).module)
    extents = [int(schedule.get(loop).extent) for loop in schedule.get_loops(schedule.get_sblock("T_layer_norm"))]
    rows = math.prod(axes)
    assert extents[:2] == [rows // at_once, at_once] if at_once else extents[0] == rows


def test_vectors_that_no_register_fits_are_left_to_llvm(target: Target) -> None:
    """Not vectors of 7 elements, which LLVM takes apart."""
    schedule = tvm.s_tir.Schedule(untried_schedule(module_of("layer_norm", (32, 8, 49)), target).module)
    *_, innermost = schedule.get_loops(schedule.get_sblock("T_layer_norm"))
    assert int(schedule.get(innermost).kind) == tvm.tirx.ForKind.SERIAL
    assert int(schedule.get(innermost).extent) == 49


def test_sum_of_all_is_vectorised(target: Target) -> None:
    found = untried_schedule(module_of("maximum_of_all", (64, 56, 56)), target)
    assert found.way == "blocks"
    assert "T.vectorized" in found.module.script()


@pytest.mark.parametrize("kind", ["softmax", "dense", "matmul_with_bias"])
@pytest.mark.quick_cases(2)
def test_small_functions_start_no_threads(kind: str, target: Target) -> None:
    script = untried_schedule(module_of(kind, (4, 8, 16)), target).module.script()
    assert "T.parallel" not in script
    assert "T.vectorized" in script


def test_blocks_with_little_work_each_start_no_threads(target: Target) -> None:
    whole = te.placeholder((8, 50_000), name="whole")
    module = tvm.IRModule({"main": te.create_prim_func([whole, *topi.split(whole, 8)])})
    assert "T.parallel" not in untried_schedule(module, target).module.script()


@pytest.mark.parametrize("name", ["GMM", "SFM", "NRM", "TBG", "DEP", "CBR", "T2D", "GRP", "DIL", "CAP"])
@pytest.mark.quick_cases(3)
def test_untried_schedule_exists_for_workloads_of_tvm(name: str, target: Target) -> None:
    found = untried_schedule(load_json(te_workload(name).module_json), target)
    assert found.way != "none"


def test_values_that_are_read_twice_at_each_step_do_not_double() -> None:
    x = te.placeholder((64,), "int32", name="x")
    first, second = x, topi.add(x, tvm.tirx.const(7, "int32"))
    for _ in range(16):
        first = topi.add(first, second)
        second = topi.bitwise_xor(topi.add(second, second), first)
    here = host_target(1)
    found = untried_schedule(tvm.IRModule({"main": te.create_prim_func([x, second])}), here)
    sums: list[Any] = []
    tvm_ffi.structural_walk(found.module["main"].body, (tvm.tirx.Add, sums.append), order="post")
    assert len(sums) < 10_000  # of 32 values; 2 to the power of 16 if all were computed where they are read
    numbers = np.arange(64, dtype="int32")
    expected, other = numbers, numbers + np.int32(7)
    for _ in range(16):
        expected = expected + other
        other = (other + other) ^ expected
    arguments = [tvm.runtime.tensor(numbers), tvm.runtime.tensor(np.zeros_like(numbers))]
    build_in_place(found.module, tvm_target(here))["main"](*arguments)
    np.testing.assert_array_equal(arguments[1].numpy(), other)
