"""Vectors that do not fit into registers are aligned on the stack."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm

from tests.workers import workloads
from tunefarm_workers.builder.scheduled_module import build_in_place, build_scheduled, replay

LONG_VECTORS = tvm.target.Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "znver4", "num-cores": 2})
STACK = re.compile(r"(vmov[au]p[sd])\s.*\((?:%rsp|%rbp)[),]")


def moves_to_stack(built: tvm.runtime.Module) -> set[str]:
    """The instructions by which vectors of sixty-four bytes go to the stack and come back."""
    lines = str(built.inspect_source("asm")).splitlines()
    return {found[1] for line in lines if "%zmm" in line and (found := STACK.search(line))}


def in_parallel(module: tvm.IRModule) -> tvm.IRModule:
    """Sixteen blocks for the threads, each with more sums than there are registers."""
    schedule = tvm.s_tir.Schedule(module)
    block = schedule.get_sblock("C")
    i, j, k = schedule.get_loops(block)
    rows, row = schedule.split(i, [None, 8])
    schedule.reorder(rows, k, row, j)
    schedule.parallel(rows)
    schedule.vectorize(j)
    schedule.unroll(row)
    schedule.cache_write(block, 0, "local")
    schedule.decompose_reduction(block, k)
    return schedule.mod


@pytest.mark.parametrize("module", [workloads.matmul(32), in_parallel(workloads.matmul(128))], ids=["whole", "threads"])
def test_vectors_on_the_stack_are_aligned(module: tvm.IRModule) -> None:
    """TVM's own pipeline aligns them to sixteen bytes, so that three of four straddle cache lines."""
    assert "vmovups" in moves_to_stack(tvm.tirx.build(module, target=LONG_VECTORS))
    assert moves_to_stack(build_scheduled(module, LONG_VECTORS)) == {"vmovaps"}


@pytest.mark.parametrize("build", [build_scheduled, build_in_place])
def test_aligned_build_computes_correct_results(build: Callable[[tvm.IRModule, tvm.target.Target], Any]) -> None:
    module = in_parallel(workloads.matmul(128))
    random = np.random.default_rng(0)
    left, right = (random.standard_normal((128, 128)).astype("float32") for _ in range(2))
    tensors = [tvm.runtime.tensor(array) for array in (left, right, np.zeros_like(left))]
    build(module, tvm.target.Target({"kind": "llvm", "num-cores": 2}))["main"](*tensors)
    np.testing.assert_allclose(tensors[-1].numpy(), left @ right, rtol=1e-3, atol=1e-3)


def test_other_architectures_use_tvms_pipeline() -> None:
    target = tvm.target.Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "num-cores": 2})
    module = replay(workloads.matmul(32), None)
    assert "stackmap" not in str(build_scheduled(module, target).inspect_source("ll"))
