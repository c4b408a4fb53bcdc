"""Schedules for GPUs without a trial: every function gets one, and all of its loop nests run on threads."""

import pytest
import tvm
from tvm import te

from tests.client.bundle.cuda_functions import gpu_target, matmul
from tests.search.untried.small_functions import KINDS, module_of
from tunefarm_search.tvm.workload import ENTRY
from tunefarm_search.untried.gpu_schedule import gpu_schedule
from tunefarm_workers.builder.cuda_source import cuda_source


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_function_becomes_launches(kind: str) -> None:
    target = gpu_target()
    found = gpu_schedule(module_of(kind, (2, 28, 28)), target)
    assert found is not None
    [function] = cuda_source(found.module, target.canonical).functions
    assert max(launch.block[0] * launch.block[1] * launch.block[2] for launch in function.launches) > 1


def test_matrix_product_gets_tiles_in_shared_memory() -> None:
    found = gpu_schedule(tvm.ir.load_json(matmul().module_json), gpu_target())
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
