"""Times the functions of common networks unscheduled and with the schedule that nothing was measured for.

``python -m benchmarks.models.untried_functions FOLDER`` writes the functions to the folder if it is empty. It compares
each in a process of its own, on one thread, in processor time, so that a busy host disturbs little, prints a table with
the smallest gains first, and writes it to ``FOLDER/untried.json``.
"""

import json
import math
import multiprocessing
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tunefarm_search.tvm.serialization import load_json

MIN_S = 0.1
BATCH_S = 0.003


@dataclass(frozen=True)
class ComparedFunction:
    """One function; times in seconds of one thread, but ``choose_s`` and ``build_s`` of the clock."""

    name: str
    way: str
    unscheduled_s: float
    untried_s: float
    choose_s: float
    build_s: float
    is_equal: bool

    @property
    def gain(self) -> float:
        """How many times faster the schedule is."""
        return self.unscheduled_s / self.untried_s


def compare(path: Path, cores: int) -> ComparedFunction:
    """Build and time one function in this process, whose pool must have one thread."""
    import tvm

    from tunefarm_search.tvm.target import host_target, tvm_target
    from tunefarm_search.untried.untried_schedule import untried_schedule

    module, target = load_json(path.read_text()), host_target(cores)
    started = time.perf_counter()
    found = untried_schedule(module, target)
    chosen = time.perf_counter()
    with tvm_target(target) as built_for:
        libraries = [tvm.compile(found.module, target=built_for)]
        built = time.perf_counter()
        libraries.append(tvm.compile(module, target=built_for))
    tensors = [[tvm.runtime.tensor(each) for each in _inputs(module)] for _ in libraries]
    untried_s, unscheduled_s = (_seconds(lib["main"], each) for lib, each in zip(libraries, tensors, strict=True))
    pairs = [(x.numpy().astype("float64"), y.numpy().astype("float64")) for x, y in zip(*tensors, strict=True)]
    is_equal = all(np.allclose(x, y, rtol=2e-4, atol=2e-4 * max(1.0, float(np.abs(y).max()))) for x, y in pairs)
    times = (unscheduled_s, untried_s, chosen - started, built - chosen)
    return ComparedFunction(path.stem, found.way, *times, is_equal)


def _inputs(module: Any) -> list[Any]:
    from tunefarm_search.tvm.workload import workload_of

    random, found = np.random.default_rng(0), []
    for argument in workload_of(module).arguments:
        if argument.dtype.startswith(("int", "uint")):
            found.append(random.integers(0, 100, argument.shape).astype(argument.dtype))
        else:
            found.append(random.uniform(0.1, 1.0, argument.shape).astype(argument.dtype))
    return found


def _seconds(kernel: Any, arguments: list[Any]) -> float:
    """The least processor time of a call, in batches of calls over at least ``MIN_S``."""
    kernel(*arguments)
    started = time.thread_time()
    kernel(*arguments)
    calls = max(1, int(BATCH_S / max(time.thread_time() - started, 1e-7)))
    best, end = math.inf, time.perf_counter() + MIN_S
    for batch in range(1_000_000):
        started = time.thread_time()
        for _ in range(calls):
            kernel(*arguments)
        best = min(best, (time.thread_time() - started) / calls)
        if batch >= 2 and time.perf_counter() > end:
            break
    return best


def main(folder: Path, cores: int = 2) -> None:
    """Compare all functions and print the table."""
    os.environ["TVM_NUM_THREADS"] = "1"
    folder.mkdir(parents=True, exist_ok=True)
    spawning = multiprocessing.get_context("spawn")
    if not list(folder.glob("*.*.json")):
        from benchmarks.models.function_corpus import write_corpus

        write_corpus(folder)
    with spawning.Pool(1, maxtasksperchild=1) as pool:
        found = [pool.apply(compare, (path, cores)) for path in sorted(folder.glob("*.*.json"))]
    for each in sorted(found, key=lambda one: one.gain):
        times = f"{each.unscheduled_s * 1e6:11.1f} {each.untried_s * 1e6:10.1f} us {each.gain:7.1f}x"
        sys.stdout.write(f"{each.name[:72]:72} {each.way:6} {times} {'' if each.is_equal else 'WRONG'}\n")
    total = sum(each.unscheduled_s for each in found) / sum(each.untried_s for each in found)
    mean = math.exp(sum(math.log(each.gain) for each in found) / len(found))
    spent = (
        f"{sum(each.choose_s for each in found):.0f} s to choose, {sum(each.build_s for each in found):.0f} s to build"
    )
    sys.stdout.write(f"{len(found)} functions: {total:.1f}x in all, geometric mean {mean:.1f}x; {spent}\n")
    (folder / "untried.json").write_text(json.dumps([asdict(each) for each in found], indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
