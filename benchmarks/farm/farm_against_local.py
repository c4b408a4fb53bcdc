"""The same job on this host twice: with the tuner's own local farm, and through a broker with one worker.

``python -m benchmarks.farm.farm_against_local`` tunes GMM with 128 trials, alternating between both, and reports the
ratio of the times from the job's lease to its end. In both cases the processes are started and the device is probed in
advance.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import structlog

from benchmarks.farm.farm_overhead import START
from benchmarks.farm.farm_servers import running_redis
from benchmarks.farm.farm_tuning import tune_on
from benchmarks.machine import this_machine
from benchmarks.workload_module import workload_module
from tunefarm.startup.fork_servers import start_fork_server
from tunefarm_sandbox.fork_server.fork_server import Child, ForkServer
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.device import HOT_CACHE, Device
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_schemas.views.jobs.summary import JobSummary
from tunefarm_services.store import Store
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.tuner.farm.celery_farm import CeleryFarm
from tunefarm_services.tuner.farm.celery_farm_pool import LanePool
from tunefarm_services.tuner.farm.lane_registrar import LaneRegistrar
from tunefarm_services.tuner.farm.ports import Farm
from tunefarm_workers.lane.local_farm import LocalFarm

ROOT: Final = Path(__file__).parents[2]
READY_S: Final = 60.0


class Run(Frozen):
    """One job: its wall time and its stages, in seconds."""

    through: str
    wall_s: float
    trials: int
    failures: int
    best_latency_s: float
    seconds: dict[str, float]


class TuningSetup:
    """The common parts of both runs."""

    def __init__(self, workload: Workload, target: Target, fork_server: ForkServer, trials: int, seed: int) -> None:
        self._workload = workload
        self._target = target
        self.fork_server = fork_server
        self._trials = trials
        self._seed = seed
        self._device: Device | None = None
        self._search: list[Child] = []

    def local(self) -> Run:
        """Tune with a farm in this process."""
        with tempfile.TemporaryDirectory(prefix="tunefarm-local-") as scratch:
            farm = LocalFarm(
                self.fork_server, scratch=Path(scratch), known=self._device, bystanders=lambda: self._search
            )
            self._device = farm.device
            try:
                return self._run("LocalFarm", farm, self._keep)
            finally:
                farm.close()

    def celery(self) -> Run:
        """Tune through a broker, with one worker process."""
        with ExitStack() as parts:
            home = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="tunefarm-celery-")))
            farm = parts.enter_context(_farm_of_one_worker(home))
            return self._run("Celery", farm, lambda _: None)

    def _keep(self, child: Child | None) -> None:
        self._search = [] if child is None else [child]

    def _run(self, through: str, farm: Farm, on_search_child: Callable[[Child | None], None]) -> Run:
        began_s = time.monotonic()
        summary: JobSummary = tune_on(
            farm,
            self.fork_server,
            self._workload,
            self._target,
            HOT_CACHE.protocol_id,
            trials=self._trials,
            seed=self._seed,
            on_search_child=on_search_child,
        )
        wall_s = time.monotonic() - began_s
        task = summary.tasks[0]
        return Run(
            through=through,
            wall_s=wall_s,
            trials=task.trials,
            failures=sum(task.failures.values()),
            best_latency_s=task.best_latency_s or 0.0,
            seconds=dict(summary.seconds),
        )


@contextmanager
def _farm_of_one_worker(home: Path) -> Iterator[CeleryFarm]:
    with ExitStack() as parts:
        url = parts.enter_context(running_redis(home))
        store = Store.open(f"sqlite:///{home}/registry.db", home / "blobs")
        parts.callback(store.close)
        stop = threading.Event()
        registrar = threading.Thread(target=LaneRegistrar(store.lanes, url, tvm_version=None).run, args=(stop,))
        registrar.start()
        parts.callback(registrar.join)
        parts.callback(stop.set)
        own = {
            "TUNEFARM_HOME": str(home),
            "TUNEFARM_BROKER_URL": url,
            "TUNEFARM_WORKER_ALLOW_MISSING_CONFINEMENT": "1",
            "TUNEFARM_LOG_LEVEL": "warning",
            "PYTHONPATH": str(ROOT),
        }
        with subprocess.Popen(
            [sys.executable, "-c", START], env={**os.environ, **own}, stdout=subprocess.DEVNULL
        ) as worker:
            parts.callback(worker.terminate)
            deadline_s = time.monotonic() + READY_S
            while not (ready := [lane for lane in store.lanes.find() if lane.state.takes_work]):
                assert worker.poll() is None, "the worker exited"
                assert time.monotonic() < deadline_s, "the worker did not become ready"
                time.sleep(0.05)
            pool = LanePool.registered(store.lanes, ready[0].device, ready[0].code_generator)
            farm = CeleryFarm(url, pool, BlobStore(home / "blobs"))
            try:
                yield farm
            finally:
                farm.close()
                worker.terminate()


def ratios(runs: list[Run]) -> list[float]:
    """For each round, the wall time through Celery over that of the local farm."""
    walls = {through: [run.wall_s for run in runs if run.through == through] for through in ("LocalFarm", "Celery")}
    return [celery_s / local_s for celery_s, local_s in zip(walls["Celery"], walls["LocalFarm"], strict=True)]


def table(runs: list[Run]) -> str:
    """One row for each run, and the ratio."""
    names = ("start", "first_measured", "search", "build", "run", "wait", "verify")
    rows = [
        "| through | wall | " + " | ".join(names) + " | failed | best |",
        "|---" * (len(names) + 4) + "|",
        *(
            f"| {run.through} | {run.wall_s:.2f} s | "
            + " | ".join(f"{run.seconds.get(name, 0.0):.2f}" for name in names)
            + f" | {run.failures} | {run.best_latency_s * 1e6:.2f} us |"
            for run in runs
        ),
    ]
    each = ratios(runs)
    mean = statistics.geometric_mean(each)
    return "\n".join([*rows, "", f"Celery over LocalFarm: {mean:.3f} ({min(each):.3f} to {max(each):.3f})"])


def main() -> None:
    """Run both alternately and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", default="GMM")
    parser.add_argument("--trials", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--output", type=Path, default=None, help="file for the figures as JSON")
    options = parser.parse_args()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(30), logger_factory=structlog.PrintLoggerFactory(sys.stderr)
    )
    fork_server = start_fork_server()
    workload, target = _job(options.workload, options.cores)
    if not fork_server.ready(60.0):
        raise SystemExit(f"TVM does not load: {fork_server.failure}")
    bench = TuningSetup(workload, target, fork_server, options.trials, options.seed)
    try:
        runs = []
        for number in range(options.rounds):
            for tune in (bench.local, bench.celery) if number % 2 == 0 else (bench.celery, bench.local):
                runs.append(tune())
                print(runs[-1].model_dump_json(), flush=True)
    finally:
        fork_server.close()
    print(table(runs))
    if options.output is not None:
        figures = {
            "machine": this_machine().model_dump(),
            "ratios": ratios(runs),
            "runs": [run.model_dump() for run in runs],
        }
        options.output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _job(name: str, cores: int) -> tuple[Workload, Target]:
    from benchmarks.host_target import host_target
    from tunefarm_search.tvm.target import canonical_target
    from tunefarm_search.tvm.workload import workload_of

    return workload_of(workload_module(name), name=name), canonical_target(host_target(cores)).target


if __name__ == "__main__":
    main()
