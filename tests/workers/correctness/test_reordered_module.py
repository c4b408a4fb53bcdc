"""The reordered function equals the function as written, to the last bit."""

import numpy as np
import pytest
import tvm

from tests.workers.workloads import matmul, square_root
from tunefarm_workers.correctness.reordered_module import with_faster_loops


def outputs(module: tvm.IRModule, dtype: str) -> np.ndarray:
    function = tvm.tirx.build(module, target=tvm.target.Target({"kind": "llvm", "num-cores": 1}))["main"]
    generator = np.random.default_rng(0)
    shapes = [[int(extent) for extent in parameter.shape] for parameter in module["main"].params]
    tensors = [tvm.runtime.tensor(generator.standard_normal(shape).astype(dtype)) for shape in shapes]
    function(*tensors)
    return tensors[-1].numpy()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_reordered_sum_rounds_the_same(dtype: str) -> None:
    module = matmul(192, dtype)
    reordered = with_faster_loops(module)
    assert "T.vectorized" in reordered.script()
    np.testing.assert_array_equal(outputs(reordered, dtype), outputs(module, dtype))


def test_small_functions_are_not_reordered() -> None:
    for module in (matmul(32), square_root()):
        assert "T.vectorized" not in with_faster_loops(module).script()
