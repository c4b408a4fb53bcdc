"""The built-in workloads by numpy, timed in a process of their own.

Run as ``python -m tunefarm.builtin.numpy_equivalent NAME:SHAPE``; prints the latency in seconds. The number of threads
is OpenBLAS's, which reads ``OPENBLAS_NUM_THREADS`` when it is loaded: that is why this is a process and not a call.
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
    """Latency in seconds of numpy on the same arguments and threads, or None where numpy has no equivalent."""
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
    """A call that computes the workload by numpy on random inputs, into buffers made beforehand where numpy can."""
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
    """Seconds a call takes in the best of several samples, each as many calls as fill its time.

    The best and not the median, so that whatever else runs on the host never makes us look better than numpy.
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
