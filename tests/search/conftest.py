"""Spaces of small functions on a fixed target, created once for all tests of the search."""

from functools import cache
from pathlib import Path

import pytest
from tvm.s_tir.meta_schedule.testing.te_workload import create_te_workload

from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_search.replay.replay_table import ReplayTable
from tunefarm_search.space.space import SearchSpace, search_space
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import canonical_target
from tunefarm_search.tvm.workload import workload_of

DATA = Path(__file__).parent / "data"


@cache
def te_workload(name: str) -> Workload:
    return workload_of(create_te_workload(name, 0), name=name)


@pytest.fixture(scope="session")
def target() -> Target:
    return canonical_target({"kind": "llvm", "mcpu": "znver4", "num-cores": 2}).target


@pytest.fixture(scope="session")
def matmul_space(target: Target) -> SearchSpace:
    return search_space(load_json(te_workload("GMM").module_json), target, "stable", Space())


@pytest.fixture(scope="session")
def convolution_space(target: Target) -> SearchSpace:
    return search_space(load_json(te_workload("C2D").module_json), target, "stable", Space())


@pytest.fixture(scope="session")
def small_table() -> ReplayTable:
    return ReplayTable.from_json((DATA / "matmul_64_small.json").read_text())


@pytest.fixture(scope="session")
def pool_table() -> ReplayTable:
    return ReplayTable.from_json((DATA / "matmul_128_pool.json").read_text())


@pytest.fixture(scope="session")
def transposed_convolution_table() -> ReplayTable:
    return ReplayTable.from_json((DATA / "transposed_convolution_pool.json").read_text())


@pytest.fixture(scope="session")
def convolution_table() -> ReplayTable:
    """One third drawn at random, the rest mutated from good ones; timed alternately on two threads of a Zen 4."""
    return ReplayTable.from_json((DATA / "convolution_pool.json").read_text())
