"""What schedules of functions that differ in shape only are worth in the search of one model.

    python -m benchmarks.models.near_tasks mobilenet-v2 --operators conv2d_add_add --seeds 0 1
    python -m benchmarks.models.near_tasks bert --operators matmul_add

Searches each function alone. After 16 trials, the best schedule of each near function is adapted to it and measured,
and the best found is compared with what as many further trials of its own search find. Times are processor time of one
thread, so that a busy machine does little harm. Minutes for each seed.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean

from tunefarm_search.tvm import loading
from tunefarm_search.tvm.serialization import load_json

loading.load()  # before other modules import TVM, which would load torch


from benchmarks.models.first_trials.chosen_functions import workloads_of_model  # noqa: E402
from benchmarks.models.first_trials.recording import MeasuringFarm, Timed  # noqa: E402
from benchmarks.store.record_replay_table import measure  # noqa: E402
from tunefarm_schemas.tuning.job import Effort  # noqa: E402
from tunefarm_schemas.tuning.trace import Space, Trace  # noqa: E402
from tunefarm_schemas.tuning.workload import Workload  # noqa: E402
from tunefarm_search.loop.loop import SearchLoop  # noqa: E402
from tunefarm_search.loop.task_search import SearchTask  # noqa: E402
from tunefarm_search.space.scheduling import Scheduled, Scheduler  # noqa: E402
from tunefarm_search.space.space import SearchSpace, search_space  # noqa: E402
from tunefarm_search.strategy.warm_start import DEFAULTS, nearest_point  # noqa: E402
from tunefarm_search.tvm.target import host_target, tvm_target  # noqa: E402
from tunefarm_services.store.catalog.workload_repository import family_of  # noqa: E402

TARGET = host_target(1)
OWN_TRIALS = 16
"""Of each function, before it gives and takes schedules."""
_WRITE = "--write"


class SearchedFunction:
    """One function, its own trials in order, and every schedule of it that was measured."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.space: SearchSpace = search_space(load_json(workload.module_json), TARGET, "stable", Space())
        self._known: dict[str, Timed] = {}
        self._own: list[tuple[Trace, float]] = []
        self._tried: set[str] = set()

    def search(self, seed: int) -> None:
        """Replace its own trials by those of a search."""
        farm = MeasuringFarm(self.space, TARGET, self._known, lambda *_: None, clock=time.thread_time)
        task = SearchTask("own", self.workload.module_json, TARGET, of_model=True)
        SearchLoop([task], farm, farm, Effort(trials=OWN_TRIALS + DEFAULTS.max_near_traces), seed=seed).run()
        self._own = [(each.trace, float("inf") if timed[0] is None else timed[0]) for each, timed in farm.measured]
        self._tried = {each.module_hash for each, _ in farm.measured[:OWN_TRIALS]}

    def best_s(self, trials: int) -> float:
        """The lowest latency in seconds of its first trials."""
        return min(latency_s for _, latency_s in self._own[:trials])

    @property
    def incumbent(self) -> Trace:
        """The best of its first ``OWN_TRIALS`` schedules."""
        return min(self._own[:OWN_TRIALS], key=lambda trial: trial[1])[0]

    def adapted_s(self, traces: Sequence[Trace]) -> list[float]:
        """Latencies in seconds of new schedules that the traces of other functions become here."""
        found, tried = [], set(self._tried)
        for trace in traces:
            point = nearest_point(self.space, trace)
            applied = None if point is None else Scheduler(self.space).apply(point)
            if isinstance(applied, Scheduled) and applied.module_hash not in tried:
                tried.add(applied.module_hash)
                latency_s, _ = measure(self.space, applied.trace, tvm_target(TARGET), time.thread_time)
                found.append(float("inf") if latency_s is None else latency_s)
        return found[: DEFAULTS.max_near_traces]


def main() -> int:
    """Compare, and print each function and the geometric mean."""
    options = _parse()
    path = options.work / f"{options.model}-functions.json"
    if not path.exists():
        module = "benchmarks.models.near_tasks"
        subprocess.run([sys.executable, "-W", "ignore", "-m", module, _WRITE, options.model, str(path)], check=True)
    workloads = [Workload.model_validate(each) for each in json.loads(path.read_text(encoding="utf-8"))]
    chosen = [SearchedFunction(each) for each in workloads if _stem(each.name) in options.operators]
    gains: list[float] = []
    for seed in options.seeds:
        for function in chosen:
            function.search(seed)
        gains += [gain for function in chosen if (gain := _gain(function, chosen, seed)) is not None]
    if not gains:
        print(f"no near functions; the model has {sorted({_stem(each.name) for each in workloads})}", file=sys.stderr)
        return 1
    print(f"{len(gains)} searches, geometric mean {geometric_mean(gains):.3f}")
    return 0


def _gain(function: SearchedFunction, others: Sequence[SearchedFunction], seed: int) -> float | None:
    """How many times faster the best is with schedules of near functions than with as many own trials."""
    family, work = family_of(function.workload), function.workload.floating_point_operations
    near = [each for each in others if each is not function and family_of(each.workload) == family]
    near.sort(key=lambda each: abs(each.workload.floating_point_operations - work))
    adapted_s = function.adapted_s([each.incumbent for each in near])
    if not adapted_s:
        return None
    own_s = function.best_s(OWN_TRIALS + len(adapted_s))
    gain = own_s / min(function.best_s(OWN_TRIALS), *adapted_s)
    shown = ", ".join(f"{each * 1e6:.1f}" for each in adapted_s)
    print(
        f"{function.workload.name}, seed {seed}: own {own_s * 1e6:.1f} us, adapted {shown} us: {gain:.3f}", flush=True
    )
    return gain


def _stem(name: str) -> str:
    """The name of a function without the numbers that TVM gives."""
    return re.sub(r"\d+(?=_|$)", "", name).removeprefix("fused_")


def _write(model: str, path: Path) -> None:
    """Write the functions of a model, in a process that may load torch."""
    path.parent.mkdir(parents=True, exist_ok=True)
    workloads = workloads_of_model(model, path.parent)
    path.write_text(json.dumps([each.model_dump(mode="json") for each in workloads]), encoding="utf-8")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="of the zoo, such as mobilenet-v2")
    parser.add_argument("--operators", nargs="+", default=["conv2d_add_add"], help="names of functions without numbers")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--work", type=Path, default=Path("bench-output/near-tasks"))
    return parser.parse_args()


if __name__ == "__main__":
    if sys.argv[1:2] == [_WRITE]:
        _write(sys.argv[2], Path(sys.argv[3]))
        raise SystemExit(0)
    raise SystemExit(main())
