"""One number of simulated devices on a real broker, served by the tuner's own code with a real store."""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, cast

import psutil
import redis

from benchmarks.comparison.recorded_times import recorded_seconds
from benchmarks.farm.farm_exploration import opened
from benchmarks.farm.farm_scaling_meter import Meter, MeterWindow, Queues, TimedStore
from benchmarks.farm.farm_servers import running_redis
from benchmarks.farm.simulated_lane import CODE_GENERATOR, simulated_device
from benchmarks.farm.simulated_search import SimulatedSearch
from tunefarm_sandbox.fork_server.fork_server import Child
from tunefarm_schemas.farm.broker import Broker
from tunefarm_schemas.farm.farm_message import HEARTBEATS, queue_name, replies_key
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.measurement import Failed, Measurement
from tunefarm_services.store import LOCAL_TENANT, Store
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.tuner.farm.celery_farm import CeleryFarm
from tunefarm_services.tuner.farm.celery_farm_pool import LanePool
from tunefarm_services.tuner.farm.lane_registrar import LaneRegistrar
from tunefarm_services.tuner.search.search_session import SearchSession

ROOT: Final = Path(__file__).parents[2]
LANES_PER_PROCESS: Final = 32
ADMISSION_S: Final = 120.0
IDLE_S: Final = 3.0
MAX_WARM_UP_S: Final = 15.0


class ScalingPoint(Frozen):
    """Results for one number of devices. Processor times are in milliseconds per candidate of the measured window."""

    devices: int
    database: str
    stretch: float
    """Factor by which devices are slower than the recorded one."""
    window_s: float
    candidates: int
    candidates_per_s: float
    ideal_per_s: float
    efficiency: float
    """Mean share of the window in which devices were busy."""
    tuner_cpu_ms: float
    """The tuner's process without its store calls."""
    store_cpu_ms: float
    """The tuner's store calls; with SQLite this includes the database."""
    worker_cpu_ms: float
    redis_cpu_ms: float
    database_cpu_ms: float
    """PostgreSQL's processes; 0 with SQLite."""
    processor_share: float
    """Share of all processors of the machine, used by any process."""
    idle_share: float
    """The same with all devices connected and idle."""
    tuner_share: float
    """Share of one processor used by the tuner's process, whose threads share the interpreter."""
    redis_share: float
    lanes_lost: int
    """How often a lane was considered silent."""
    admission_s: float
    """From the start of the lanes' processes until the registry had admitted all of them."""
    longest_queue: int
    longest_heartbeats: int
    longest_replies: int
    dispatched: int
    """In the whole run, including the warm-up and the end."""
    measured: int
    second_attempts: int
    lost: int
    doubled: int

    def is_right(self, room: int) -> bool:
        """Whether each candidate counted once, and no queue exceeded ``room`` for each device."""
        return self.lost == self.doubled == 0 and self.longest_queue <= room * self.devices

    @property
    def cpu_ms(self) -> float:
        """The total of all components."""
        parts = (self.tuner_cpu_ms, self.store_cpu_ms, self.worker_cpu_ms, self.redis_cpu_ms, self.database_cpu_ms)
        return sum(parts)


def run_point(
    devices: int,
    database_url: str | None,
    *,
    window_s: float,
    room: int = 3,
    stretch: float = 1.0,
    server: int | None = None,
) -> ScalingPoint:
    """Keep ``devices`` busy for ``window_s`` seconds after a warm-up.

    ``database_url`` is an empty PostgreSQL database, with the server's process ``server``; None means SQLite.
    """
    with ExitStack() as parts:
        folder = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="tunefarm-scaling-")))
        url = parts.enter_context(running_redis(folder))
        store = Store.open(database_url or f"sqlite:///{folder}/tunefarm.db", folder / "blobs")
        parts.callback(store.close)
        timed = TimedStore(store)
        parts.enter_context(_in_thread(LaneRegistrar(cast("Store", timed).lanes, url, tvm_version=None).run))
        began_s = time.monotonic()
        workers = parts.enter_context(_lanes(devices, url, folder, room, stretch))
        _await_lanes(store, devices)
        admission_s = time.monotonic() - began_s
        idle_share = _machine_share(IDLE_S)
        lease, run = opened(store)
        pool = LanePool.registered(cast("Store", timed).lanes, simulated_device(), CODE_GENERATOR)
        farm = CeleryFarm(url, pool, BlobStore(folder / "blobs"), job_id=lease.job_id)
        parts.callback(farm.close)
        farm.open_task(run.measure_task())
        client = redis.Redis.from_url(url)
        queues = Queues(client, _keys(url, farm))
        parts.enter_context(_in_thread(queues.run))
        search = SimulatedSearch(run.exploration_id, farm.room())
        parts.callback(search.close)
        warm_up_s = min(2 * max(recorded_seconds(stretch)), MAX_WARM_UP_S)
        window = MeterWindow(window_s, warm_up_s, lambda: Meter(workers, client, timed, server), search)
        session = SearchSession(
            store=cast("Store", timed),
            farm=farm,
            lease=lease,
            search=cast("Child", search),
            runs={run.exploration_id: run},
            elapsed_s=time.monotonic,
            on_tick=window.tick,
            on_measured=window.measured,
        )
        assert session.run(), "the session ended early"
        once = {"admission_s": admission_s, "idle_share": idle_share, "lanes_lost": timed.lanes_lost}
        return _point(devices, database_url, stretch, window, queues, store, run.exploration_id, once)


def _point(
    devices: int,
    database_url: str | None,
    stretch: float,
    window: MeterWindow,
    queues: Queues,
    store: Store,
    exploration_id: str,
    once: Mapping[str, float],
) -> ScalingPoint:
    assert window.before is not None
    assert window.after is not None
    wall_s = window.after.wall_s - window.before.wall_s
    seconds = recorded_seconds(stretch)
    done = len(window.numbers)
    busy_s = sum(seconds[number % len(seconds)] for number in window.numbers)
    used_s = {name: window.after.parts[name] - window.before.parts[name] for name in window.after.parts}
    each_ms = {f"{name}_cpu_ms": 1e3 * cpu_s / max(done, 1) for name, cpu_s in used_s.items() if name != "machine"}
    trials = store.trials.of_exploration(exploration_id)
    results = [trial for trial in trials if trial.measurement is not None]
    return ScalingPoint(
        devices=devices,
        database="sqlite" if database_url is None else "postgresql",
        stretch=stretch,
        window_s=wall_s,
        candidates=done,
        candidates_per_s=done / wall_s,
        ideal_per_s=devices * done / max(busy_s, 1e-9),
        efficiency=busy_s / (devices * wall_s),
        **each_ms,
        processor_share=used_s["machine"] / (wall_s * (os.cpu_count() or 1)),
        tuner_share=(used_s["tuner"] + used_s["store"]) / wall_s,
        redis_share=used_s["redis"] / wall_s,
        **once,
        longest_queue=queues.longest["queue"],
        longest_heartbeats=queues.longest["heartbeats"],
        longest_replies=queues.longest["replies"],
        dispatched=len(trials),
        measured=len(results),
        second_attempts=sum(trial.dispatch.attempt > 1 for trial in trials),
        lost=len(trials) - len(results) + sum(_is_failed(trial.measurement) for trial in results),
        doubled=len(trials) - store.explorations.get(LOCAL_TENANT, exploration_id).spent.trials,
    )


def _machine_share(seconds: float) -> float:
    """Share of all processors in use now."""
    psutil.cpu_percent()
    time.sleep(seconds)
    return float(psutil.cpu_percent()) / 100


def _is_failed(measurement: Measurement | None) -> bool:
    return measurement is None or isinstance(measurement.result, Failed)


@contextmanager
def _in_thread(work: Callable[[threading.Event], None]) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def _lanes(amount: int, url: str, home: Path, room: int, stretch: float) -> Iterator[list[psutil.Popen]]:
    environment = {
        **os.environ,
        "TUNEFARM_HOME": str(home),
        "TUNEFARM_BROKER_URL": url,
        "TUNEFARM_BLOB_URL": "",
        "PYTHONPATH": str(ROOT),
    }
    del environment["TUNEFARM_BLOB_URL"]
    command = [sys.executable, "-m", "benchmarks.farm.many_lanes", "--room", str(room), "--stretch", str(stretch)]
    processes = []
    share = max(LANES_PER_PROCESS, -(-amount // 8))
    try:
        for first in range(0, amount, share):
            own = ["--first", str(first), "--lanes", str(min(share, amount - first))]
            processes.append(psutil.Popen([*command, *own], env=environment, cwd=ROOT, stdout=subprocess.DEVNULL))
        yield processes
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(20)
            except psutil.TimeoutExpired:
                process.kill()
                process.wait()


def _await_lanes(store: Store, amount: int) -> None:
    deadline_s = time.monotonic() + ADMISSION_S
    while sum(lane.state.takes_work for lane in store.lanes.find()) < amount:
        assert time.monotonic() < deadline_s, "not all lanes were admitted"
        time.sleep(0.5)


def _keys(url: str, farm: CeleryFarm) -> dict[str, str]:
    broker = Broker.at(url)
    queue = queue_name(farm.device.device_class.device_class_id, farm.code_generator)
    names = {"queue": queue, "heartbeats": HEARTBEATS, "replies": replies_key(farm.farm_id)}
    return {name: broker.key(key) for name, key in names.items()}
