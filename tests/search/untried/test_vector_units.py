"""Schedules for the vectors of a processor: how long they are, how many it has, and how many it computes at once."""

import math
import re

import numpy as np
import tvm
from tvm import te, topi

from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.features.features import FeatureExtractor, machine_of
from tunefarm_search.model.population import GeneticOperators, features_of
from tunefarm_search.space.space import search_space
from tunefarm_search.tvm.target import canonical_target
from tunefarm_search.untried.untried_schedule import untried_schedule

ROWS = re.compile(r"_init in T\.grid\(([\d, ]+)\)")
CHANNELS = 40
"""Five vectors of half a register of 16 floats, or four of 10 elements, which fill no register."""


def target(processor: str, triple: str | None = None) -> Target:
    given = {"kind": "llvm", "mcpu": processor, "num-cores": 1}
    return canonical_target(given if triple is None else {**given, "mtriple": triple}).target


def pointwise() -> tvm.IRModule:
    image, kernel = te.placeholder((1, 14, 14, 128)), te.placeholder((1, 1, 128, CHANNELS))
    result = topi.nn.conv(image, kernel, [1, 1], [0, 0, 0, 0], [1, 1], 1, "NHWC", "HWIO", "float32")
    return tvm.IRModule({"main": te.create_prim_func([image, kernel, result])})


def vectors(processor: str) -> set[int]:
    untried = untried_schedule(pointwise(), target(processor))
    return set(map(int, re.findall(r"T\.vectorized\((\d+)\)", untried.module.script())))


def test_halves_of_registers_are_used_where_they_take_half_the_time() -> None:
    assert vectors("znver4") == {8}
    assert 8 not in vectors("skylake-avx512")


def test_registers_are_those_of_the_processor() -> None:
    def registers(processor: str, triple: str | None = None) -> tuple[int, int, int]:
        machine = machine_of(target(processor, triple))
        return machine.vector_bytes, machine.vector_registers, machine.unit_bytes

    assert registers("znver4") == (64, 32, 32)
    assert registers("znver5") == (64, 32, 64)
    assert registers("x86-64-v4") == (64, 32, 64)
    assert registers("haswell") == (32, 16, 32)
    assert registers("x86-64-v2") == (16, 16, 32)
    assert registers("cortex-a76", "aarch64-linux-gnu") == (16, 32, 32)


def test_memory_weighs_more_where_two_registers_are_multiplied_in_a_cycle() -> None:
    def memory_share(processor: str) -> float:
        space = search_space(pointwise(), target(processor), "stable", Space())
        extractor = FeatureExtractor(space)
        points = GeneticOperators(space.sketches, np.random.default_rng(0)).sample(200)
        features, _ = features_of(points, space.sketches, extractor)
        memory, cycles = (features[:, extractor.names.index(f"loops0.{name}")] for name in ("memory_cycles", "cycles"))
        return float(np.median(memory - cycles))

    assert memory_share("sapphirerapids") > memory_share("icelake-server") + 0.5
    assert memory_share("icelake-server") == memory_share("znver5")


def test_results_of_a_product_fit_into_the_registers() -> None:
    """With AVX2, a tile for the registers of AVX-512 takes more than twice as long."""
    given = te.placeholder((128, 768)), te.placeholder((768, 768))
    module = tvm.IRModule({"main": te.create_prim_func([*given, topi.matmul(*given)])})
    for processor in ("haswell", "x86-64-v4"):
        machine = machine_of(target(processor))
        text = untried_schedule(module, target(processor)).module.script()
        (columns,) = set(map(int, re.findall(r"T\.vectorized\((\d+)\)", text)))
        rows = math.prod(map(int, ROWS.search(text)[1].split(", ")))  # type: ignore[index]
        used = rows * columns * 4 // machine.vector_bytes
        assert machine.vector_registers / 2 <= used < machine.vector_registers
