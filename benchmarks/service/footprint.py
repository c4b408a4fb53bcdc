"""Start-up time, memory and installed size of the service's parts.

python -m benchmarks.service.footprint
"""

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import psutil

from benchmarks.farm.farm_servers import running_redis
from benchmarks.farm.worker_command import started_worker
from benchmarks.service.installed_size import ROLES, installed_bytes
from benchmarks.service.service_process import ServiceProcess
from tunefarm_schemas.frozen import Frozen
from tunefarm_services.settings import Settings
from tunefarm_services.store import Store
from tunefarm_services.tuner.farm.lane_registrar import LaneRegistrar

_READS: Final = ("/v1/jobs", "/v1/records", "/v1/devices", "/v1/targets", "/v1/usage", "/v1/events")
_AT_ONCE: Final = 8
_INTAKE_WITHIN_S: Final = 60.0
_NO_RATE_LIMIT: Final = {"TUNEFARM_RATE_LIMIT": "1000000/second"}
"""Requests use one token and follow each other without a pause."""


class ApiFootprint(Frozen):
    """One start of ``tunefarm serve --no-tuner``. The intake's process is separate: it has TVM loaded."""

    ready_s: float
    intake_ready_s: float
    rss_bytes: int
    rss_after_requests_bytes: int
    intake_rss_bytes: int


class WorkerFootprint(Frozen):
    """One start of ``tunefarm worker start``, until its lane accepts work."""

    ready_s: float
    rss_bytes: int
    fork_server_rss_bytes: int


class Footprint(Frozen):
    """All figures. ``installed_bytes`` is by role; ``missing`` are required packages that are not installed here."""

    api: tuple[ApiFootprint, ...]
    requests: int
    worker: tuple[WorkerFootprint, ...]
    installed_bytes: dict[str, int]
    missing: tuple[str, ...]


def api_footprint(home: Path, requests: int) -> ApiFootprint:
    """Start the API with ``home``, and measure it before and after ``requests`` requests."""
    service = ServiceProcess(home, ["--no-tuner", "--processes", "1"], _NO_RATE_LIMIT)
    began_s = time.monotonic()
    try:
        service.start()
        rss_bytes = service.process.memory_info().rss
        with service.client() as client:
            while client.get("/readyz").json()["intake"] != "ready":
                if time.monotonic() - began_s > _INTAKE_WITHIN_S:
                    raise TimeoutError("the intake is not ready in time")
                time.sleep(0.02)
        intake_ready_s = time.monotonic() - began_s
        with ThreadPoolExecutor(_AT_ONCE) as clients:
            for requested in [clients.submit(_ask, service, requests // _AT_ONCE) for _ in range(_AT_ONCE)]:
                requested.result()
        return ApiFootprint(
            ready_s=service.ready_s,
            intake_ready_s=intake_ready_s,
            rss_bytes=rss_bytes,
            rss_after_requests_bytes=service.process.memory_info().rss,
            intake_rss_bytes=sum(child.memory_info().rss for child in service.process.children()),
        )
    finally:
        service.stop()


def _ask(service: ServiceProcess, requests: int) -> None:
    with service.client() as client:
        for number in range(requests):
            client.get(_READS[number % len(_READS)]).raise_for_status()


def worker_footprint(home: Path) -> WorkerFootprint:
    """Start a worker of this host's processor with a Redis, and wait for its lane."""
    with ExitStack() as parts:
        url = parts.enter_context(running_redis(home))
        settings = Settings(home=home)
        store = Store.open(settings.database(), settings.blobs())
        parts.callback(store.close)
        stop = threading.Event()
        registrar = threading.Thread(target=LaneRegistrar(store.lanes, url, tvm_version=None).run, args=(stop,))
        registrar.start()
        parts.callback(registrar.join)
        parts.callback(stop.set)
        began_s = time.monotonic()
        process = parts.enter_context(started_worker(home, url))
        while not any(lane.state.takes_work for lane in store.lanes.find()):
            if process.poll() is not None:
                raise RuntimeError((home / "worker.log").read_text(encoding="utf-8")[-3000:])
            time.sleep(0.02)
        ready_s = time.monotonic() - began_s
        below = psutil.Process(process.pid).children(recursive=True)
        return WorkerFootprint(
            ready_s=ready_s,
            rss_bytes=psutil.Process(process.pid).memory_info().rss,
            fork_server_rss_bytes=max((child.memory_info().rss for child in below), default=0),
        )


def table(found: Footprint) -> str:
    """Medians as Markdown."""
    rows = []
    if found.api:
        rows += [
            f"| API, ready | {_median([each.ready_s for each in found.api]):.2f} s |",
            f"| API, intake ready | {_median([each.intake_ready_s for each in found.api]):.2f} s |",
            f"| API, resident when ready | {_median([each.rss_bytes for each in found.api]) / 1e6:.0f} MB |",
            f"| API, resident after {found.requests:,} requests | "
            f"{_median([each.rss_after_requests_bytes for each in found.api]) / 1e6:.0f} MB |",
            f"| intake's process | {_median([each.intake_rss_bytes for each in found.api]) / 1e6:.0f} MB |",
        ]
    if found.worker:
        rows += [
            f"| worker, lane ready | {_median([each.ready_s for each in found.worker]):.2f} s |",
            f"| worker, resident | {_median([each.rss_bytes for each in found.worker]) / 1e6:.0f} MB |",
            f"| worker's fork server | {_median([each.fork_server_rss_bytes for each in found.worker]) / 1e6:.0f} MB |",
        ]
    rows += [f"| {role}, installed | {size / 1e6:.0f} MB |" for role, size in found.installed_bytes.items()]
    return "\n".join(("| part | figure |", "|---|---|", *rows))


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="starts of each part; medians are printed")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--output", type=Path, default=None, help="folder for footprint.json")
    options = parser.parse_args(arguments)
    sizes = {role: installed_bytes(name, extras) for role, (name, extras) in ROLES.items()}
    with tempfile.TemporaryDirectory(prefix="tunefarm-footprint-") as folder:
        homes = [Path(folder) / f"{part}-{number}" for part in ("api", "worker") for number in range(options.rounds)]
        for home in homes:
            home.mkdir()
        found = Footprint(
            api=tuple(api_footprint(home, options.requests) for home in homes[: options.rounds]),
            requests=options.requests,
            worker=tuple(worker_footprint(home) for home in homes[options.rounds :]),
            installed_bytes={role: sum(max(size, 0) for size in each.values()) for role, each in sizes.items()},
            missing=tuple(sorted({name for each in sizes.values() for name, size in each.items() if size < 0})),
        )
    print(table(found))
    if found.missing:
        print(f"not installed here and not counted: {', '.join(found.missing)}", file=sys.stderr)
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "footprint.json").write_text(found.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
