"""Latencies of the API under many clients.

    python -m benchmarks.load --clients 200 --seconds 60

starts ``tunefarm serve --no-tuner`` on loopback with a store filled with records and jobs, runs clients that read and
submit, and prints quantiles for each route. Run it on an otherwise idle machine.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil
from pydantic import SecretStr

from benchmarks.load.filling import Filling, filled
from benchmarks.load.load_figures import LoadFigures, by_route, route_figures, samples_in, table
from benchmarks.load.load_plot import plot_load
from benchmarks.load.server_clock import ServerClock
from benchmarks.service.service_process import ServiceProcess
from tunefarm_services.settings import Settings

RAMP_S: Final = 5.0
"""The time in which all clients start; samples until shortly after it do not count."""
_SETTLE_S: Final = 3.0
_CONSECUTIVE_CHECKS: Final = 40
_CLIENTS: Final = Path(__file__).with_name("clients.py")


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill the store, run the clients, report. Returns 0 if no request failed."""
    options = _options(arguments)
    with tempfile.TemporaryDirectory(prefix="tunefarm-load-") as folder:
        home = options.home or Path(folder) / "home"
        home.mkdir(parents=True, exist_ok=True)
        given = {} if options.database is None else {"TUNEFARM_DATABASE_URL": options.database}
        filling = _fill_once(home, options)
        if options.seconds == 0:
            return 0
        allowed = {"TUNEFARM_OPEN_JOBS_PER_TENANT": "1000000", "TUNEFARM_METRICS_ON_LOOPBACK": "true"}
        flags = ["--no-tuner"] if options.processes is None else ["--no-tuner", "--processes", str(options.processes)]
        service = ServiceProcess(home, flags, {**given, **allowed})
        try:
            service.start()
            figures = _measure(service, filling, options, Path(folder))
        finally:
            service.stop()
    print(table(figures))
    for error in figures.first_errors:
        print(f"error: {error}", file=sys.stderr)
    if options.output is not None:
        (options.output / "load.json").write_text(figures.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return 0 if figures.errors == 0 else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200, help="concurrent clients")
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of the measurement; 0 only fills")
    parser.add_argument("--records", type=int, default=100_000, help="tuning records in the store")
    parser.add_argument("--jobs", type=int, default=500, help="finished jobs in the store")
    parser.add_argument(
        "--database", default=None, help="URL of an empty PostgreSQL database (default: SQLite in a new folder)"
    )
    parser.add_argument("--home", type=Path, default=None, help="folder that keeps the filled store for the next run")
    parser.add_argument("--processes", type=int, default=None, help="API processes (default: the service's)")
    parser.add_argument("--output", type=Path, default=None, help="folder for load.json, load.svg and load.png")
    parser.add_argument("--profile", type=Path, default=None, help="file for a py-spy profile of the API")
    return parser.parse_args(arguments)


def _fill_once(home: Path, options: argparse.Namespace) -> Filling:
    """Fill the store unless an earlier run has; return its contents."""
    path = home / "filling.json"
    if path.exists():
        return Filling.model_validate_json(path.read_text(encoding="utf-8"))
    url = None if options.database is None else SecretStr(options.database)
    settings = Settings(home=home, database_url=url)
    filling = filled(settings, records=options.records, jobs=options.jobs, clients=options.clients)
    path.write_text(filling.model_dump_json(), encoding="utf-8")
    return filling


def _measure(service: ServiceProcess, filling: Filling, options: argparse.Namespace, folder: Path) -> LoadFigures:
    _await_intake(service)
    state, samples_path = folder / "filling.json", folder / "samples.jsonl"
    state.write_text(filling.model_dump_json(), encoding="utf-8")
    command = [sys.executable, "-m", "locust", "-f", str(_CLIENTS), "--headless", "--host", service.url]
    command += ["--users", str(options.clients), "--spawn-rate", str(options.clients / RAMP_S)]
    command += ["--run-time", f"{options.seconds + RAMP_S + _SETTLE_S:.0f}s", "--only-summary", "--loglevel", "ERROR"]
    own = {"LOAD_FILLING": str(state), "LOAD_SAMPLES": str(samples_path)}
    with (folder / "locust.log").open("wb") as log:
        clients = psutil.Popen(command, env={**os.environ, **own}, stdout=log, stderr=log)
        _await_first_request(service, clients)
        if clients.poll() is not None:
            raise RuntimeError((folder / "locust.log").read_text(encoding="utf-8")[-3000:])
        time.sleep(RAMP_S + _SETTLE_S)
        began_s, before = time.time(), ServerClock.read(service, clients)
        profiler = _profiler(service, options.profile, options.seconds)
        time.sleep(options.seconds)
        after, ended_s = ServerClock.read(service, clients), time.time()
        clients.wait(60)
    if profiler is not None:
        profiler.wait(60)
    samples = [sample for sample in samples_in(samples_path, began_s) if sample.at_s <= ended_s]
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
        plot_load(samples, options.output / "load.svg")
    used = after.since(before)
    return LoadFigures(
        clients=options.clients,
        seconds=ended_s - began_s,
        database="SQLite" if options.database is None else "PostgreSQL",
        records=options.records,
        jobs=options.jobs,
        requests_per_s=len(samples) / (ended_s - began_s),
        errors=sum(bool(sample.error) for sample in samples),
        reads=route_figures("all reads", [sample for sample in samples if sample.route.startswith("GET")]),
        routes=by_route(samples),
        server_reads_within_goal=used.share_of_reads_within_goal,
        api_processes=len(service.api_processes),
        api_cores=used.api_cores,
        api_cpu_s_per_request=used.api_cores * (ended_s - began_s) / max(len(samples), 1),
        children_cores=used.children_cores,
        clients_cores=used.clients_cores,
        api_rss_bytes=max(process.memory_info().rss for process in service.api_processes),
        api_unshared_bytes=sum(process.memory_full_info().pss for process in {*service.api_processes, service.process}),
        first_errors=tuple(dict.fromkeys(f"{s.route}: {s.status} {s.error}" for s in samples if s.error))[:10],
    )


def _await_intake(service: ServiceProcess) -> None:
    """Wait until every process is ready to read modules, so that the first submissions are not slower."""
    states: list[str] = []
    while states != ["ready"] * _CONSECUTIVE_CHECKS:
        with service.client() as client:  # a new connection, which any of the processes may accept
            states = [*states, client.get("/readyz").json()["intake"]][-_CONSECUTIVE_CHECKS:]
            if states[-1] == "asleep":
                client.post("/v1/targets:validate", json={"target": "host"}).raise_for_status()
        time.sleep(0.02)


def _await_first_request(service: ServiceProcess, clients: psutil.Popen) -> None:
    """Wait until the clients send requests or have exited."""
    with service.client() as client:
        while b'route="/v1/jobs/{job_id}"' not in client.get("/metrics").content and clients.poll() is None:
            time.sleep(0.1)


def _profiler(service: ServiceProcess, path: Path | None, seconds: float) -> "subprocess.Popen[bytes] | None":
    if path is None:
        return None
    program = Path(sys.executable).with_name("py-spy")
    record = ["record", "--pid", str(service.process.pid), "--duration", str(int(seconds)), "--rate", "200"]
    return subprocess.Popen([str(program), *record, "--format", "raw", "--output", str(path), "--gil"])


if __name__ == "__main__":
    sys.exit(main())
