"""TVM's own tuner on one workload, with explicit defaults. Prints one line of JSON.

``python -m benchmarks.comparison.stock_tuner GMM --trials 128 --seed 0 --cores 2``

The builder and the runner must always be TVM's real ones: TVM's default callbacks delete the parent folder of any path
that a builder returns, and only the real builder returns a folder made for that one artifact.
"""

import argparse
import json
import os
import tempfile
import time
from typing import Any

import numpy
from tvm.ir import IRModule
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule
from tvm.s_tir.meta_schedule.measure_callback import PyMeasureCallback
from tvm.s_tir.meta_schedule.tir_integration import tune_tir
from tvm.target import Target

from benchmarks.child_process import STARTED_AT
from benchmarks.host_target import host_target
from benchmarks.workload_module import workload_module


@derived_object
class BestSoFar(PyMeasureCallback):  # type: ignore[misc]  # TVM ships no types
    """Records each batch of measurements that has a new best. TVM reports a batch when all of it has run."""

    def __init__(self, started_s: float) -> None:
        super().__init__()
        self.started_s = started_s
        self.trials = 0
        self.points: list[dict[str, float]] = []
        self.failures: dict[str, int] = {}
        self.first_failure = ""

    def apply(self, _task_scheduler: Any, _task_id: int, _candidates: Any, builds: Any, runs: Any) -> None:
        """Called by TVM once per batch."""
        elapsed_s = time.monotonic() - self.started_s
        for build, run in zip(builds, runs, strict=True):
            self.trials += 1
            if run.error_msg is not None:
                reason = "run_error" if build.error_msg is None else "build_error"
                self.failures[reason] = self.failures.get(reason, 0) + 1
                self.first_failure = self.first_failure or str(build.error_msg or run.error_msg)[-600:]
                continue
            latency_s = float(numpy.mean([float(second) for second in run.run_secs]))
            if not self.points or latency_s < self.points[-1]["latency_s"]:
                self.points.append({"elapsed_s": elapsed_s, "trials": self.trials, "latency_s": latency_s})


def tune(module: IRModule, target: Target, *, trials: int, seed: int, cores: int, callback: Any) -> Any:
    """Tune ``module`` as TVM's documentation does; the values are the defaults of apache-tvm 0.27.

    The returned database is in memory and outlives its work folder.
    """
    with tempfile.TemporaryDirectory(prefix="stock-tuner-") as work_directory:
        return tune_tir(
            mod=module,
            target=target,
            work_dir=work_directory,
            max_trials_global=trials,
            max_trials_per_task=trials,
            num_trials_per_iter=64,
            builder=meta_schedule.builder.LocalBuilder(max_workers=cores, timeout_sec=30.0),
            runner=meta_schedule.runner.LocalRunner(
                timeout_sec=30.0,
                evaluator_config=meta_schedule.runner.EvaluatorConfig(
                    number=3, repeat=1, min_repeat_ms=100, enable_cpu_cache_flush=False
                ),
                cooldown_sec=0.0,
                alloc_repeat=1,
            ),
            database="json",
            cost_model="xgb",
            measure_callbacks=[*meta_schedule.MeasureCallback.create("default"), callback],
            task_scheduler="gradient",
            space="post-order-apply",
            strategy="evolutionary",
            num_tuning_cores=cores,
            seed=seed,
            module_equality="structural",
            post_optimization=False,
        )


def shipped_trace(database: Any, module: IRModule, target: Target) -> str | None:
    """The trace, as JSON text, of the schedule that ``compile_tir`` ships; None without a valid one."""
    record = database.query_tuning_record(module, target, workload_name="main")
    return None if record is None else json.dumps(record.trace.as_json(), default=_plain)


def _plain(value: Any) -> object:
    """JSON form of the containers and numbers in a trace."""
    if hasattr(value, "items"):
        return dict(value.items())
    if hasattr(value, "value"):
        return value.value
    if isinstance(value, str):
        return str(value)
    return list(value)


def stages(profile: dict[str, float], before_s: float) -> dict[str, float]:
    """TVM's profile in the stages of this project; ``start`` is the time it does not attribute."""
    search_s = sum(seconds for name, seconds in profile.items() if _is_outermost(name, "EvoSearch/", profile))
    learn_s = sum(seconds for name, seconds in profile.items() if _is_outermost(name, "MeasureCallback/", profile))
    build_s, run_s = profile.get("SendToBuilder", 0.0), profile.get("SendToRunner", 0.0)
    start_s = before_s + max(0.0, profile["Total"] - search_s - learn_s - build_s - run_s)
    return {"start": start_s, "search": search_s + learn_s, "build": build_s, "run": run_s}


def _is_outermost(name: str, prefix: str, profile: dict[str, float]) -> bool:
    parents = (name.rsplit("/", depth)[0] for depth in range(1, name.count("/")))
    return name.startswith(prefix) and not any(parent in profile for parent in parents)


def main() -> None:
    """Tune and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload")
    parser.add_argument("--trials", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cores", type=int, required=True)
    arguments = parser.parse_args()
    started_s = float(os.environ.get(STARTED_AT, time.monotonic()))
    module = workload_module(arguments.workload)
    target = Target(host_target(arguments.cores))
    callback = BestSoFar(started_s)
    numpy.random.seed(arguments.seed)  # the stock cost model uses this generator
    before_s = time.monotonic() - started_s
    with meta_schedule.Profiler() as profiler:
        database = tune(
            module,
            target,
            trials=arguments.trials,
            seed=arguments.seed,
            cores=arguments.cores,
            callback=callback,
        )
    profile = {str(name): float(second) for name, second in profiler.get().items()}
    answer = {
        "trials": callback.trials,
        "points": callback.points,
        "failures": callback.failures,
        "first_failure": callback.first_failure,
        "final_trace": shipped_trace(database, module, target),
        "seconds": stages(profile, before_s),
        "profile": profile,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
