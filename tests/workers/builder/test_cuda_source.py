"""Launches of kernels: as many blocks and threads as the schedule binds, and the tensors that the kernels name."""

import re

import pytest
import tvm
import tvm_ffi

from tests.client.bundle.cuda_functions import functions, gpu_target, matmul, mirrored_sum, tiled
from tunefarm.bundle.bundle_source import RecordFunction
from tunefarm_schemas.bad_input import BadInput
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.workload import ENTRY
from tunefarm_workers.builder.cuda_source import CudaFunction, cuda_source
from tunefarm_workers.builder.scheduled_module import replay

AXES = [f"{name}.{axis}" for name in ("blockIdx", "threadIdx") for axis in "xyz"]


def scheduled(function: RecordFunction) -> tvm.IRModule:
    return replay(load_json(function.workload.module_json), function.record.trace, "cuda")


def generated(module: tvm.IRModule, name: str) -> tuple[str, CudaFunction]:
    made = cuda_source(tvm.IRModule({name: module[ENTRY].with_attr("global_symbol", name)}), gpu_target().canonical)
    [function] = made.functions
    return made.source, function


def extents_of_nests(module: tvm.IRModule) -> list[list[int]]:
    """The extents that each outermost nest of loops binds, in the order of ``AXES``."""
    nests: list[dict[str, int]] = []

    def look(loop: object) -> None:
        if loop.thread_binding is None:
            return
        tag = str(loop.thread_binding.thread_tag)
        if tag.startswith("blockIdx") and (not nests or tag in nests[-1] or "threadIdx.x" in nests[-1]):
            nests.append({})
        nests[-1].setdefault(tag, int(loop.extent))

    tvm_ffi.structural_walk(module[ENTRY].body, (tvm.tirx.For, look), order="pre")
    return [[each.get(axis, 1) for axis in AXES] for each in nests]


@pytest.mark.parametrize("function", functions(), ids=lambda each: each.workload.name)
def test_launches_have_the_extents_of_the_schedule(function: RecordFunction) -> None:
    module = scheduled(function)
    _, made = generated(module, "f")
    assert [[*each.grid, *each.block] for each in made.launches] == extents_of_nests(module)


@pytest.mark.parametrize("function", functions(), ids=lambda each: each.workload.name)
def test_arguments_are_those_that_the_kernels_name(function: RecordFunction) -> None:
    source, made = generated(scheduled(function), "f")
    names = [each.name for each in function.workload.arguments]
    assert made.tensors == len(names)
    for launch in made.launches:
        declared = re.search(rf"{launch.kernel}\(([^)]*)\) {{", source)
        assert declared is not None
        pointers = re.findall(r"\* __restrict__ (\w+)_ptr", declared[1])
        assert len(pointers) == len(launch.arguments)
        for name, number in zip(pointers, launch.arguments, strict=True):
            assert (names[number] if number < len(names) else "B") == name


def test_memory_between_kernels_is_a_workspace() -> None:
    _, made = generated(scheduled(functions()[1]), "mirrored")
    assert made.workspaces_bytes == (32 * 64 * 4,)
    assert [each.arguments for each in made.launches] == [(0, 2), (2, 1)]


def test_dynamic_shared_memory_is_a_parameter_of_the_launch() -> None:
    sizes = {}
    for scope in ("shared", "shared.dyn"):
        _, made = generated(scheduled(tiled(matmul(), "1" * 32, scope)), "matmul")
        sizes[scope] = made.launches[0].dynamic_shared_bytes
    assert sizes == {"shared": 0, "shared.dyn": 4 * (16 * 8 + 8 * 32)}


def test_kernels_in_a_loop_of_the_host_are_refused() -> None:
    schedule = tvm.s_tir.Schedule(load_json(matmul().module_json))
    _, columns, _ = schedule.get_loops(schedule.get_sblock("C", func_name=ENTRY))
    schedule.bind(columns, "threadIdx.x")
    with pytest.raises(BadInput, match="matmul cannot be a part of a bundle for a GPU: it computes on the host"):
        generated(schedule.mod, "matmul")


def test_function_without_threads_is_refused() -> None:
    with pytest.raises(BadInput, match="mirrored cannot be a part of a bundle for a GPU: it computes on the host"):
        generated(load_json(mirrored_sum().module_json), "mirrored")


def test_source_leaves_the_compiler_of_tvm_as_it_is() -> None:
    before = tvm.get_global_func("tvm_callback_cuda_compile")
    generated(scheduled(functions()[0]), "twice")
    assert tvm.get_global_func("tvm_callback_cuda_compile").same_as(before)
