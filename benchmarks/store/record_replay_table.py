"""Measures a space once and records it, so that search strategies can be compared without measuring.

    python benchmarks/store/record_replay_table.py small tests/search/data/matmul_64_small.json
    python benchmarks/store/record_replay_table.py te:GMM pool.json --points 1000

``small`` measures every point of a hand-written matmul space; ``te:NAME`` draws a pool from the automatic space of one
of TVM's workloads. Each point is built and timed in a forked child on one thread.
"""

import argparse
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tunefarm_search.tvm.serialization import load_json

os.environ["TVM_NUM_THREADS"] = "1"

import numpy as np
import tvm
from tvm import te
from tvm.s_tir.meta_schedule.testing.te_workload import create_te_workload

from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space, Trace
from tunefarm_search.features.features import FeatureExtractor
from tunefarm_search.model.population import GeneticOperators, features_of
from tunefarm_search.replay.replay_table import RecordedTrial, ReplayTable
from tunefarm_search.space.scheduling import Point, Rejected, Scheduler
from tunefarm_search.space.space import SearchSpace, search_space, sketches_of
from tunefarm_search.tvm.target import host_target, tvm_target
from tunefarm_search.tvm.trace import steps_of
from tunefarm_search.tvm.workload import workload_of

MAX_CHILD_S = 8.0


def schedule_small(schedule: Any) -> None:
    """Two tiles per loop, and a choice of unrolling."""
    block = schedule.get_sblock("C")
    row, column, inner = schedule.get_loops(block)
    row_tiles = schedule.split(row, schedule.sample_perfect_tile(row, n=2, max_innermost_factor=16))
    column_tiles = schedule.split(column, schedule.sample_perfect_tile(column, n=2, max_innermost_factor=64))
    inner_tiles = schedule.split(inner, schedule.sample_perfect_tile(inner, n=2, max_innermost_factor=16))
    schedule.reorder(row_tiles[0], column_tiles[0], inner_tiles[0], inner_tiles[1], row_tiles[1], column_tiles[1])
    root = schedule.get_sblock("root")
    schedule.annotate(root, "meta_schedule.vectorize", 64)
    steps = schedule.sample_categorical([0, 64], [0.5, 0.5])
    schedule.annotate(root, "meta_schedule.unroll_explicit", steps)


def small_matmul(extent: int) -> Any:
    """The product of two square matrices."""
    first = te.placeholder((extent, extent), name="A", dtype="float32")
    second = te.placeholder((extent, extent), name="B", dtype="float32")
    k = te.reduce_axis((0, extent), name="k")
    product = te.compute((extent, extent), lambda i, j: te.sum(first[i, k] * second[k, j], axis=k), name="C")
    return te.create_prim_func([first, second, product])


def every_point(space: SearchSpace) -> list[Point]:
    """All points of a small space."""
    return [Point(s.number, tuple(row)) for s in space.sketches for row in s.all_points().tolist()]


def drawn_points(space: SearchSpace, count: int, seed: int) -> list[Point]:
    """Half random points, half the most promising eighth of many more by the analytical estimate.

    Fast schedules are rare: without the second half, a pool would contain almost none.
    """
    operators = GeneticOperators(space.sketches, np.random.default_rng(seed))
    random, many = operators.sample(count - count // 2), operators.sample(count // 2 * 8)
    _, prior = features_of(many, space.sketches, FeatureExtractor(space))
    promising = many.take(np.argsort(-np.nan_to_num(prior))[: count // 2])
    drawn = operators.join([random, promising])
    order = np.random.default_rng(seed).permutation(len(drawn))
    return [drawn.point(int(number), space.sketches) for number in order]


def measure(
    space: SearchSpace, trace: Trace, for_tvm: Any, clock: Callable[[], float] = time.perf_counter
) -> tuple[float | None, float]:
    """Latency in seconds (None for a failure or timeout) and build time, from a forked child.

    ``time.thread_time`` as the ``clock`` counts processor time, for a busy machine; it takes longer itself.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.write(writer, json.dumps(_timed(space, trace, for_tvm, clock)).encode())
        os._exit(0)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], MAX_CHILD_S)
    text = os.read(reader, 200) if ready else b""
    os.close(reader)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    latency_s, build_s = json.loads(text) if text else (None, MAX_CHILD_S)
    return latency_s, build_s


def _timed(space: SearchSpace, trace: Trace, for_tvm: Any, clock: Callable[[], float]) -> tuple[float, float]:
    started = time.perf_counter()
    module = Scheduler(space).module_of(trace)
    built = tvm.compile(module, target=for_tvm)
    function = built["main"]
    build_s = time.perf_counter() - started
    arguments = random_arguments(space)
    function(*arguments)
    # The least disturbed repeat: a recording may share the machine with other work.
    return min(seconds_of_call(function, arguments, clock) for _ in range(5)), build_s


def random_arguments(space: SearchSpace) -> list[Any]:
    """Tensors for the function of a space, the same each time."""
    random = np.random.default_rng(0)
    return [
        tvm.runtime.tensor(random.standard_normal([int(n) for n in p.shape]).astype(str(p.dtype)))
        for p in space.module["main"].params
    ]


def seconds_of_call(function: Any, arguments: Sequence[Any], clock: Callable[[], float]) -> float:
    """The mean of as many calls as take 4 ms."""
    number, spent = 0, 0.0
    while spent < 0.004:
        begun = clock()
        function(*arguments)
        spent += clock() - begun
        number += 1
    return spent / number


def record(name: str, module_json: str, target: Target, space: SearchSpace, points: list[Point]) -> ReplayTable:
    """Measure points one after the other."""
    scheduler, for_tvm, texts = Scheduler(space), tvm_target(target), [s.steps.sketch for s in space.sketches]
    trials: dict[str, RecordedTrial] = {}
    for number, point in enumerate(points):
        scheduled = scheduler.apply(point)
        if isinstance(scheduled, Rejected):
            continue
        steps = steps_of(scheduled.trace)
        decisions = tuple(steps.decisions[n] for n in steps.sampling)
        key = json.dumps([point.sketch, decisions])
        if key not in trials:
            trials[key] = RecordedTrial(point.sketch, decisions, *measure(space, scheduled.trace, for_tvm))
        if number % 50 == 0:
            print(f"{number}/{len(points)}", trials[key].latency_s, file=sys.stderr, flush=True)
    exhaustive = len(points) >= space.points
    return ReplayTable(name, module_json, target, exhaustive, tuple(texts), tuple(trials.values()))


def main() -> None:
    """Record the table that the command line selects."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", help="small, or te:NAME")
    parser.add_argument("output", type=Path)
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    target = host_target(1)
    if options.workload == "small":
        workload = workload_of(small_matmul(64), name="matmul_64_small")
        module = load_json(workload.module_json)
        requested = Space(automatic=False, sketches=sketches_of(schedule_small, module, target))
    else:
        workload = workload_of(create_te_workload(options.workload.removeprefix("te:"), 0), name=options.workload)
        module, requested = load_json(workload.module_json), Space()
    space = search_space(module, target, "stable", requested)
    points = every_point(space) if options.workload == "small" else drawn_points(space, options.points, options.seed)
    options.output.write_text(record(workload.name, workload.module_json, target, space, points).to_json())


if __name__ == "__main__":
    main()
