"""Overhead of a candidate in the broker and the store.

``python -m benchmarks.farm.farm_overhead`` measures processor time per candidate of the tuner's code, the store, the
worker's code and Redis, with one worker process whose device answers immediately.
"""

import argparse
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Final, cast

import psutil
import redis

from benchmarks.farm.farm_exploration import opened
from benchmarks.farm.farm_scaling_meter import Meter, TimedStore
from benchmarks.farm.farm_servers import empty_database, running_redis
from benchmarks.farm.simulated_lane import CODE_GENERATOR, ROOM, SECONDS, simulated_device
from tunefarm_schemas.frozen import canonical_json
from tunefarm_schemas.tuning.measurement import Candidate, CandidateOrigin, Dispatch
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_services.store import Store
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.tuner.farm.attempts import dispatch_of
from tunefarm_services.tuner.farm.celery_farm import CeleryFarm
from tunefarm_services.tuner.farm.celery_farm_pool import LanePool
from tunefarm_services.tuner.farm.lane_registrar import LaneRegistrar
from tunefarm_services.tuner.search.search_session import MIN_COMMIT_INTERVAL_S

ROOT: Final = Path(__file__).parents[2]
WARM_UP: Final = 256
START: Final = """
import sys
from tunefarm.server.worker_start import start_worker
sys.exit(start_worker({}, keep_trying=False))
"""


@contextmanager
def worker(broker_url: str, home: Path, room: int) -> Iterator[psutil.Popen]:
    """Run a worker process whose device answers immediately."""
    own = {
        "TUNEFARM_HOME": str(home),
        "TUNEFARM_BROKER_URL": broker_url,
        "TUNEFARM_WORKER_FARM": "benchmarks.farm.simulated_lane:build",
        "TUNEFARM_LOG_LEVEL": "warning",
        "TUNEFARM_WORKER_NAME": "lane",
        "PYTHONPATH": str(ROOT),
        SECONDS: "0",
        ROOM: str(room),
    }
    with psutil.Popen([sys.executable, "-c", START], env={**os.environ, **own}, stdout=subprocess.DEVNULL) as process:
        yield process
        process.terminate()


def dispatches(amount: int, size_bytes: int, exploration_id: str, lease: Lease, first: int = 0) -> list[Dispatch]:
    """Attempts at ``amount`` candidates with traces of typical text."""
    return [
        dispatch_of(
            Candidate(
                exploration_id=exploration_id,
                number=number,
                trace=Trace(text=_trace_text(size_bytes)),
                module_hash=str(number),
                origin=CandidateOrigin.EVOLVED,
            ),
            fence=lease.fence,
        )
        for number in range(first, first + amount)
    ]


def pass_through(farm: CeleryFarm, store: Store, lease: Lease, dispatches: Sequence[Dispatch], in_flight: int) -> None:
    """Store and measure all candidates and store their results, with a limit in flight, like a search session."""
    unsent = iter(dispatches)
    pending = done = 0
    while done < len(dispatches):
        batch = list(islice(unsent, in_flight - pending))
        if batch:
            store.trials.put(lease, [dispatch.candidate for dispatch in batch], batch)
        for dispatch in batch:
            farm.submit(dispatch)
        time.sleep(MIN_COMMIT_INTERVAL_S)
        found = farm.collect(5.0)
        fresh = store.measurements.commit(lease, found)
        assert len(fresh) == len(found), "a result was counted twice"
        farm.acknowledge(found)
        pending += len(batch) - len(found)
        done += len(found)


def measure(options: argparse.Namespace) -> dict[str, float]:
    """Run once; figures by name, processor time in milliseconds per candidate."""
    with ExitStack() as parts:
        folder = Path(tempfile.mkdtemp(prefix="tunefarm-overhead-"))
        parts.callback(lambda: shutil.rmtree(folder, ignore_errors=True))
        url = parts.enter_context(running_redis(folder))
        database, server = parts.enter_context(empty_database(options.database, "overhead"))
        store = Store.open(database or f"sqlite:///{folder}/tunefarm.db", folder / "blobs")
        parts.callback(store.close)
        timed = TimedStore(store)
        known = cast("Store", timed)
        _with_registrar(parts, known, url)
        process = parts.enter_context(worker(url, folder, options.room))
        while not any(lane.state.takes_work for lane in store.lanes.find()):
            time.sleep(0.1)
        lease, run = opened(store)
        pool = LanePool.registered(known.lanes, simulated_device(), CODE_GENERATOR)
        farm = CeleryFarm(url, pool, BlobStore(folder / "blobs"))
        parts.callback(farm.close)
        farm.open_task(run.measure_task())
        warm_up = dispatches(WARM_UP, options.trace_bytes, run.exploration_id, lease)
        pass_through(farm, known, lease, warm_up, options.room)
        timed_dispatches = dispatches(options.candidates, options.trace_bytes, run.exploration_id, lease, first=WARM_UP)
        client = redis.Redis.from_url(url)
        before = Meter([process], client, timed, server)
        pass_through(farm, known, lease, timed_dispatches, options.room)
        after = Meter([process], client, timed, server)
        return _figures(before, after, options.candidates)


def _figures(before: Meter, after: Meter, candidates: int) -> dict[str, float]:
    used_s = {name: after.parts[name] - before.parts[name] for name in before.parts if name != "machine"}
    each_ms = {f"{name}_cpu_ms": 1e3 * cpu_s / candidates for name, cpu_s in used_s.items()}
    rate = candidates / (after.wall_s - before.wall_s)
    return {**each_ms, "cpu_ms": sum(each_ms.values()), "candidates_per_s": rate}


def _with_registrar(parts: ExitStack, store: Store, url: str) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=LaneRegistrar(store.lanes, url, tvm_version=None).run, args=(stop,))
    thread.start()
    parts.callback(thread.join)
    parts.callback(stop.set)


def _trace_text(size_bytes: int) -> str:
    instruction = ["SamplePerfectTile", [["b0", 4, 64, "global"]], [4, 64], [[1, 8, 4, secrets.randbelow(64)]]]
    text = canonical_json([[instruction] * (size_bytes // 70), []])
    return text[:size_bytes]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=5000)
    parser.add_argument("--room", type=int, default=32, help="orders that the worker holds at the same time")
    parser.add_argument("--trace-bytes", type=int, default=3000)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--output", type=Path, default=None, help="JSON file for the figures")
    options = parser.parse_args()
    figures = measure(options)
    print("| figure | value |\n|---|---|")
    print("\n".join(f"| {name} | {value:.3f} |" for name, value in figures.items()))
    if options.output is not None:
        options.output.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
