"""Times the built-in workloads in NumPy, in a separate process.

Run as ``python -m tunefarm.builtin.numpy_equivalent NAME:SHAPE``; prints the latency in seconds. A separate process is
needed because OpenBLAS reads ``OPENBLAS_NUM_THREADS`` when it is loaded.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from tunefarm.builtin.catalogue import CATALOGUE, BuiltinReference, parse_builtin

SAMPLES: Final = 21
SAMPLE_S: Final = 0.01
TIMEOUT_S: Final = 60.0


def time_by_numpy(reference: BuiltinReference, num_cores: int) -> float | None:
    """NumPy's latency in seconds for the same shape and number of threads; None without an equivalent."""
    if not CATALOGUE[reference.name].has_numpy_equivalent:
        return None
    threads = {name: str(num_cores) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    try:
        finished = subprocess.run(
            [sys.executable, "-m", "tunefarm.builtin.numpy_equivalent", str(reference).removeprefix("builtin:")],
            env={**os.environ, **threads},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
            text=True,
        )
    except subprocess.TimeoutExpired:
        return None
    return float(finished.stdout) if finished.returncode == 0 else None


def equivalent(reference: BuiltinReference) -> Callable[[], Any]:
    """A function that computes the workload in NumPy on random inputs, into preallocated buffers where possible."""
    import numpy as np

    generator = np.random.default_rng(0)

    def random(*shape: int) -> Any:
        return generator.standard_normal(shape, dtype=np.float32)

    shape = reference.shape
    if reference.name in {"matmul", "matmul_bias_relu"}:
        m, n, k = shape
        a, b, bias, out = random(m, k), random(k, n), random(n), np.empty((m, n), np.float32)
        if reference.name == "matmul":
            return lambda: np.matmul(a, b, out=out)
        return lambda: np.maximum(np.add(np.matmul(a, b, out=out), bias, out=out), 0, out=out)
    if reference.name == "batch_matmul":
        batch, m, n, k = shape
        a, b, out = random(batch, m, k), random(batch, k, n), np.empty((batch, m, n), np.float32)
        return lambda: np.matmul(a, b, out=out)
    if reference.name == "dense":
        m, n, k = shape
        a, weight, out = random(m, k), random(n, k), np.empty((m, n), np.float32)
        return lambda: np.matmul(a, weight.T, out=out)
    a, gain, out = random(*shape), random(shape[1]), np.empty(shape, np.float32)
    return (lambda: _softmax(a, out)) if reference.name == "softmax" else (lambda: _rms_norm(a, gain, out))


def _softmax(a: Any, out: Any) -> Any:
    import numpy as np

    np.exp(np.subtract(a, a.max(axis=1, keepdims=True), out=out), out=out)
    return np.divide(out, out.sum(axis=1, keepdims=True), out=out)


def _rms_norm(a: Any, gain: Any, out: Any) -> Any:
    import numpy as np

    scale = 1 / np.sqrt(np.square(a, out=out).mean(axis=1, keepdims=True) + np.float32(1e-5))
    return np.multiply(np.multiply(a, scale, out=out), gain, out=out)


def measure(call: Callable[[], Any]) -> float:
    """Seconds per call in the best of several samples.

    Takes the best sample, not the median, so that other load on the host never makes NumPy look slower than it is.
    """
    call()
    started = time.perf_counter()
    call()
    calls = max(1, int(SAMPLE_S / max(time.perf_counter() - started, 1e-9)))
    samples = []
    for _ in range(SAMPLES):
        started = time.perf_counter()
        for _ in range(calls):
            call()
        samples.append((time.perf_counter() - started) / calls)
    return min(samples)


if __name__ == "__main__":
    sys.stdout.write(f"{measure(equivalent(parse_builtin(sys.argv[1])))}\n")
