"""Candidates of the search space for GPUs compute what NumPy does, on the emulated GPU."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, topi

from tests.client.bundle.cuda_functions import gpu_target
from tests.client.bundle.emulated_gpu.emulator import Array, Emulator
from tests.client.bundle.emulated_gpu.test_emulated_schedules import product, random
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import search_space
from tunefarm_workers.builder.cuda_source import CudaSource, cuda_source

# The search space for GPUs loads TVM's tensor intrinsics, which takes half a minute.
pytestmark = pytest.mark.targets
DRAWS, OF_A_SKETCH = 200, 3
ROWS = random(37, 77)
A, B = random(37, 30), random(30, 50)
EXPONENTS = np.exp(ROWS)
CASES: dict[str, tuple[tuple[Array, ...], Callable[..., Any], Array]] = {
    "matmul": ((A, B), lambda a, b: product(a, b, "float32"), A @ B),
    "softmax": ((ROWS,), topi.nn.softmax, EXPONENTS / EXPONENTS.sum(axis=1, keepdims=True)),
    "sum of rows": ((ROWS,), lambda a: topi.sum(a, axis=1), ROWS.sum(axis=1)),
    "sum of columns": ((ROWS,), lambda a: topi.sum(a, axis=0), ROWS.sum(axis=0)),
    "transpose": ((ROWS,), topi.transpose, ROWS.T),
}


def candidates(module: tvm.IRModule) -> Iterator[CudaSource]:
    """Some of each sketch. TVM rejects most random tiles, which need too many threads or too much shared memory."""
    space = search_space(module, gpu_target(), "stable", Space())
    scheduler, random_rows = Scheduler(space), np.random.default_rng(0)
    for sketch in space.sketches:
        points = (Point(sketch.number, tuple(row.tolist())) for row in sketch.sample(random_rows, DRAWS))
        applied = (each for each in map(scheduler.apply, points) if isinstance(each, Scheduled))
        for scheduled in islice(applied, OF_A_SKETCH):
            yield cuda_source(scheduler.module_of(scheduled.trace), gpu_target().canonical)


@pytest.mark.parametrize("name", CASES)
def test_candidates_compute_the_function(emulator: Emulator, name: str) -> None:
    inputs, function, expected = CASES[name]
    given = [te.placeholder(each.shape, str(each.dtype), f"given{number}") for number, each in enumerate(inputs)]
    primitive = te.create_prim_func([*given, function(*given)]).with_attr("global_symbol", "main")
    sources = list(candidates(tvm.IRModule({"main": primitive})))
    assert sources
    for source in sources:
        [found] = emulator.run(source, inputs, [np.empty(expected.shape, "float32")])
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
