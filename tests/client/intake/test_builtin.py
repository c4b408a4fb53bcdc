"""The built-in workloads match NumPy."""

import subprocess
import sys

import pytest

from tunefarm.builtin.catalogue import CATALOGUE, parse_builtin
from tunefarm.builtin.numpy_equivalent import time_by_numpy
from tunefarm_schemas.bad_input import BadInput

SMALL = {
    "matmul": "8x16x4",
    "matmul_bias_relu": "8x16x4",
    "batch_matmul": "2x8x16x4",
    "dense": "3x16x4",
    "softmax": "8x16",
    "rms_norm": "8x16",
    "conv2d_relu": "1x6x5x3x4",
}

# In a separate process: a process that has run a kernel must not fork, and the test process forks.
CHECK = """
import sys
import numpy as np, tvm
from tunefarm.builtin.catalogue import parse_builtin
from tunefarm.builtin.expressions import create_builtin

def expected(name, x):
    if name in {"matmul", "batch_matmul"}: return x[0] @ x[1]
    if name == "matmul_bias_relu": return np.maximum(x[0] @ x[1] + x[2], 0)
    if name == "dense": return x[0] @ x[1].T
    if name == "softmax":
        e = np.exp(x[0] - x[0].max(1, keepdims=True)); return e / e.sum(1, keepdims=True)
    if name == "rms_norm": return x[0] / np.sqrt((x[0] ** 2).mean(1, keepdims=True) + 1e-5) * x[1]
    padded = np.pad(x[0], ((0, 0), (1, 1), (1, 1), (0, 0)))
    n, h, w, _ = x[0].shape
    out = sum(padded[:, a:a + h, b:b + w] @ x[1][a, b] for a in range(3) for b in range(3))
    return np.maximum(out, 0)

for text in sys.argv[1:]:
    reference = parse_builtin(text)
    function = create_builtin(reference)
    shapes = [tuple(int(e) for e in function.buffer_map[p].shape) if hasattr(function, "buffer_map")
              else tuple(int(e) for e in p.shape) for p in function.params]
    generator = np.random.default_rng(0)
    arrays = [generator.standard_normal(shape).astype("float32") for shape in shapes]
    target = tvm.target.Target({"kind": "llvm", "num-cores": 1, "opt-level": 0})
    module = tvm.build(tvm.IRModule({"main": function}), target=target)
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    module["main"](*tensors)
    np.testing.assert_allclose(tensors[-1].numpy(), expected(reference.name, arrays), rtol=1e-4, atol=1e-5)
"""


def test_builtins_match_numpy() -> None:
    assert set(SMALL) == set(CATALOGUE)
    words = [f"{name}:{shape}" for name, shape in SMALL.items()]
    ended = subprocess.run([sys.executable, "-c", CHECK, *words], capture_output=True, text=True, timeout=150)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("name", [name for name, builtin in CATALOGUE.items() if builtin.has_numpy_equivalent])
@pytest.mark.quick_cases(1)
def test_time_by_numpy_returns_latency(name: str) -> None:
    latency_s = time_by_numpy(parse_builtin(f"{name}:{SMALL[name]}"), num_cores=1)
    assert latency_s is not None
    assert 0 < latency_s < 1.0


def test_time_by_numpy_has_no_convolution() -> None:
    assert time_by_numpy(parse_builtin("conv2d_relu:1x6x5x3x4"), num_cores=1) is None


def test_builtin_reference_round_trips() -> None:
    reference = parse_builtin("matmul:8x16x4")
    assert parse_builtin(str(reference).removeprefix("builtin:")) == reference


@pytest.mark.parametrize("text", ["", "nonsense", "matmul:1x2", "matmul:axbxc", "matmul:1x2x99999999", "matmul:٣x4x5"])
def test_parse_builtin_rejects_invalid_text(text: str) -> None:
    with pytest.raises(BadInput):
        parse_builtin(text)
