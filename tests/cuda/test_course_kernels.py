"""Kernels in shared memory, from a schedule by hand and from the space: CUDA source and the limits of a GPU."""

import re
import shutil
from collections.abc import Callable

import numpy as np
import pytest
import tvm

from tests.cuda import course_kernels
from tests.cuda.test_gpu_target import source_of
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import search_space
from tunefarm_search.tvm.target import canonical_target
from tunefarm_workers.cuda.gpu_facts import facts_of
from tunefarm_workers.cuda.gpu_target import target_of_gpu
from tunefarm_workers.session.device.default_schedule import scheduled_for
from tunefarm_workers.session.device.device_target import device_target
from tunefarm_workers.session.device.session_messages import Toolchain

FACTS = facts_of("NVIDIA A100, GPU-1, 8.0, 40536, 580.159.04, 345, 31\n", 0)
MAX_THREADS, MAX_SHARED_BYTES = 1024, 48 << 10
SIZES = {"float": 4, "uchar": 1}
SAMPLED = 32

pytestmark = pytest.mark.faults
Made = Callable[[], tvm.IRModule]


@pytest.fixture
def target() -> Target:
    found = canonical_target(target_of_gpu(FACTS)).target
    assert '"sm_80"' in found.canonical
    return found


def assert_is_shared_kernel(source: str, *, vectors: bool) -> None:
    assert "__global__" in source
    assert "__shared__ " in source
    assert "__syncthreads()" in source
    assert "threadIdx.x" in source
    assert not vectors or re.search(r"\*\(float[24]\*\)\(\w*shared", source), "each thread fetches one element"


@pytest.mark.parametrize(
    ("made", "vectors"), [(course_kernels.scheduled_conv1d, False), (course_kernels.scheduled_matmul, True)]
)
def test_schedule_by_hand_becomes_a_kernel_in_shared_memory(made: Made, vectors: bool, target: Target) -> None:
    module = made()
    built_for = device_target(target.canonical, Toolchain())
    source = source_of(module, built_for)
    assert_is_shared_kernel(source, vectors=vectors)
    assert "blockIdx.x" in source


@pytest.mark.parametrize("name", ["conv1d", "matmul"])
def test_every_sampled_candidate_is_within_the_limits_of_the_gpu(name: str, target: Target) -> None:
    module = course_kernels.module_of(getattr(course_kernels, name)())
    space = search_space(module, target, "stable", Space())
    scheduler, random = Scheduler(space), np.random.default_rng(2)
    built_for = device_target(target.canonical, Toolchain())
    sources = []
    for number, sketch in enumerate(space.sketches):
        for row in sketch.sample(random, SAMPLED):
            applied = scheduler.apply(Point(number, tuple(row.tolist())))
            if isinstance(applied, Scheduled):
                sources.append(source_of(scheduled_for(module, applied.trace.text, built_for), built_for))
    assert sources
    for source in sources:
        assert 0 < threads_per_block(source) <= MAX_THREADS
        assert shared_bytes(source) <= MAX_SHARED_BYTES
    in_shared_memory = [source for source in sources if shared_bytes(source)]
    assert in_shared_memory or name == "conv1d", "tiles of the matmul are fetched together"
    for source in in_shared_memory:
        assert_is_shared_kernel(source, vectors=False)


def threads_per_block(source: str) -> int:
    return max(int(bound) for bound in re.findall(r"__launch_bounds__\((\d+)\)", source))


def shared_bytes(source: str) -> int:
    declared = re.findall(r"__shared__ (?:alignas\(\d+\) )?(\w+) \w+\[(\d+)\]", source)
    assert len(declared) == source.count("__shared__ "), "a declaration of an unknown form"
    return sum(SIZES[kind] * int(count) for kind, count in declared)


@pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("name", ["conv1d", "matmul"])
def test_schedule_by_hand_computes_what_numpy_computes(name: str, target: Target) -> None:
    built = tvm.tirx.build(getattr(course_kernels, f"scheduled_{name}")(), target=tvm.target.Target("cuda"))
    random = np.random.default_rng(0)
    if name == "conv1d":
        given = [random.random(1026, dtype="float32"), random.random(3, dtype="float32")]
        expected = sum(given[0][r : r + 1024] * given[1][r] for r in range(3))
    else:
        given = [random.random((1024, 1024), dtype="float32") for _ in range(2)]
        expected = given[0] @ given[1].T
    device = tvm.cuda(0)
    out = tvm.runtime.tensor(np.zeros_like(expected), device)
    built["main"](*(tvm.runtime.tensor(each, device) for each in given), out)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-3)
