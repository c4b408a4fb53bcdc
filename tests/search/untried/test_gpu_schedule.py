"""Schedules for GPUs without a trial: every function gets one, and all of its loop nests run on threads."""

import pytest
import tvm
from tvm import te

from tests.client.bundle.cuda_functions import gpu_target, matmul
from tests.search.untried.small_functions import KINDS, module_of
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import tvm_target
from tunefarm_search.tvm.workload import ENTRY
from tunefarm_search.untried.gpu_schedule import gpu_schedule
from tunefarm_search.validation.memory_bounds import bounds_of
from tunefarm_workers.builder.cuda_source import cuda_source


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.quick_cases(5)
def test_every_function_becomes_launches(kind: str) -> None:
    target = gpu_target()
    found = gpu_schedule(module_of(kind, (2, 28, 28)), target)
    assert found is not None
    [function] = cuda_source(found.module, target.canonical).functions
    assert max(launch.block[0] * launch.block[1] * launch.block[2] for launch in function.launches) > 1


def test_matrix_product_gets_tiles_in_shared_memory() -> None:
    found = gpu_schedule(load_json(matmul().module_json), gpu_target())
    assert found is not None
    assert found.way == "matrix product"
    assert 'scope="shared"' in found.module.script()


def test_rule_that_leaves_a_loop_nest_to_the_host_is_not_used() -> None:
    given = te.placeholder((1, 6, 8), "float32", "x")
    swapped = te.compute((6, 1, 8), lambda i, j, k: given[j, i, k], "T_transpose")
    shaped = te.compute((6, 8), lambda i, j: swapped[(j // 8 + i) % 6, 0, j % 8], "T_reshape")
    module = tvm.IRModule({ENTRY: te.create_prim_func([given, shaped])})
    found = gpu_schedule(module, gpu_target())
    assert found is not None
    assert found.way == "spread"
    assert cuda_source(found.module, gpu_target().canonical).functions[0].launches


def matrix_times_vector(rows: int) -> tvm.IRModule:
    matrix, vector = te.placeholder((rows, 96), "float32", "A"), te.placeholder((96,), "float32", "x")
    k = te.reduce_axis((0, 96), "k")
    product = te.compute((rows,), lambda i: te.sum(matrix[i, k] * vector[k], axis=k), "y")
    return tvm.IRModule({ENTRY: te.create_prim_func([matrix, vector, product])})


@pytest.mark.parametrize(("rows", "way"), [(48, "matrix-vector product"), (40, "reduction")])
def test_rule_that_writes_beyond_an_output_is_not_used(rows: int, way: str) -> None:
    found = gpu_schedule(matrix_times_vector(rows), gpu_target())
    assert found is not None
    assert found.way == way
    assert bounds_of(found.module, tvm_target(gpu_target())).is_proven


def test_function_without_a_proof_gets_the_last_rule() -> None:
    table, rows = te.placeholder((50, 8), "float32", "table"), te.placeholder((6,), "int32", "rows")
    chosen = te.compute((6, 8), lambda i, j: table[rows[i], j], "chosen")
    found = gpu_schedule(tvm.IRModule({ENTRY: te.create_prim_func([table, rows, chosen])}), gpu_target())
    assert found is not None
    assert found.way == "spread"


# The import of TVM's tensor intrinsics takes seconds.
@pytest.mark.targets
@pytest.mark.parametrize("rows", [128, 100])
def test_product_of_half_keeps_tensor_cores(rows: int) -> None:
    a, b = te.placeholder((rows, 128), "float16", "A"), te.placeholder((128, 128), "float16", "B")
    k = te.reduce_axis((0, 128), "k")
    product = te.compute((rows, 128), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")
    found = gpu_schedule(tvm.IRModule({ENTRY: te.create_prim_func([a, b, product])}), gpu_target())
    assert found is not None
    assert found.way == "matrix product"
    assert "tvm_mma_sync" in found.module.script()
