"""Checks that a service does not grow during an hour of use.

    python -m benchmarks.service.soak --minutes 60

starts ``tunefarm serve`` with its tuner, runs clients that read, follow and submit, tunes small jobs one after the
other, and samples the resident memory and open descriptors of each process. It fits a line with a 95% interval to the
samples and fails if an interval lies above zero, which means growth. The store is filled at the start. In the first
quarter, excluded from the lines, clients are ten times as fast, so that caches and heaps reach their final size.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import httpx
import psutil
from pydantic import SecretStr

from benchmarks.load.filling import filled
from benchmarks.service.process_family import ProcessSample, family_of
from benchmarks.service.service_process import ServiceProcess
from benchmarks.service.soak_figures import SETTLED_AFTER, SoakFigures, plot_soak, role_figures, table
from tunefarm_services.settings import Settings

_READS: Final = (
    "/v1/jobs?page_size=20",
    "/v1/records?page_size=20",
    "/v1/devices",
    "/v1/workloads",
    "/v1/usage",
    "/v1/artifacts?page_size=5",
)
_OF_JOB: Final = ("", "/tasks", "/trials?page_size=20", "/records")
_JOB_WITHIN_S: Final = 300.0
_PROCESS_END_WITHIN_S: Final = 3.0
_SETTLING_SPEEDUP: Final = 10
"""Factor by which clients are faster until the processes have settled."""


class Users:
    """Client threads: some read, one tunes jobs and follows their events, until they are stopped."""

    def __init__(self, service: ServiceProcess, token: str, readers: int, pause_s: float, module_json: str) -> None:
        self._service = service
        self._token = token
        self._settled_pause_s = pause_s
        self._pause_s = pause_s / _SETTLING_SPEEDUP
        self._module_json = module_json
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._job_id: str | None = None
        self.requests = 0
        self.errors: list[str] = []
        self.outcomes: list[str] = []
        self._threads = [threading.Thread(target=self._repeat, args=(self._read,)) for _ in range(readers)]
        self._threads.append(threading.Thread(target=self._repeat, args=(self._tune,)))

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def slow_down(self) -> None:
        """Use the requested pause between requests from now on."""
        self._pause_s = self._settled_pause_s

    def end(self) -> None:
        """Stop the threads and wait for them."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _repeat(self, work: Callable[[httpx.Client], None]) -> None:
        with self._service.client() as client:
            while not self._stop.wait(self._pause_s):
                try:
                    work(client)
                except (httpx.HTTPError, KeyError, ValueError) as error:
                    with self._lock:
                        self.errors.append(f"{type(error).__name__}: {error}"[:300])

    def _read(self, client: httpx.Client) -> None:
        for path in _READS:
            self._get(client, path)
        if self._job_id is not None:
            for rest in _OF_JOB:
                self._get(client, f"/v1/jobs/{self._job_id}{rest}")
        self._get(client, "/readyz")

    def _tune(self, client: httpx.Client) -> None:
        body = {"module": self._module_json, "effort": {"trials": 6}, "fresh": True, "seed": len(self.outcomes)}
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        for _ in range(2):  # as after a lost response
            response = client.post("/v1/jobs", json=body, headers=headers)
            response.raise_for_status()
            self._count()
        self._job_id = response.json()["job_id"]
        deadline_s = time.monotonic() + _JOB_WITHIN_S
        with client.stream("GET", f"/v1/jobs/{self._job_id}/events", timeout=60.0) as stream:
            for line in stream.iter_lines():
                if self._stop.is_set() or time.monotonic() > deadline_s or line == "event: summary":
                    break
        ended = client.get(f"/v1/jobs/{self._job_id}").json()
        if ended["outcome"] is not None:
            self.outcomes.append(ended["outcome"])
        elif not self._stop.is_set():
            self.outcomes.append("not finished")

    def _get(self, client: httpx.Client, path: str) -> None:
        client.get(path).raise_for_status()
        self._count()
        self._stop.wait(self._pause_s)

    def _count(self) -> None:
        with self._lock:
            self.requests += 1


def run_soak(options: argparse.Namespace, home: Path) -> tuple[SoakFigures, list[ProcessSample]]:
    """Run the soak; return its figures and samples."""
    environment = {} if options.database is None else {"TUNEFARM_DATABASE_URL": options.database}
    url = None if options.database is None else SecretStr(options.database)
    filling = filled(Settings(home=home, database_url=url), records=options.records, jobs=options.jobs, clients=1)
    service = ServiceProcess(home, environment=environment)
    samples: list[ProcessSample] = []
    try:
        service.start()
        users = Users(service, filling.tokens[0], options.readers, options.pause_s, filling.module_json)
        users.start()
        try:
            ends_s = time.monotonic() + options.minutes * 60
            settled_s = ends_s - (1 - SETTLED_AFTER) * options.minutes * 60
            while time.monotonic() < ends_s:
                time.sleep(min(options.interval_s, max(ends_s - time.monotonic(), 0.0)))
                samples += family_of(service.process)
                if time.monotonic() >= settled_s:
                    users.slow_down()
                _show(options, ends_s, users)
        finally:
            users.end()
        family = service.process.children(recursive=True)
    finally:
        service.stop()
    _, left = psutil.wait_procs(family, timeout=_PROCESS_END_WITHIN_S)
    print(file=sys.stderr)
    figures = SoakFigures(
        minutes=options.minutes,
        database="SQLite" if options.database is None else "PostgreSQL",
        requests=users.requests,
        errors=len(users.errors),
        jobs_succeeded=users.outcomes.count("succeeded"),
        jobs_failed=sum(outcome != "succeeded" for outcome in users.outcomes),
        processes_left=len(left),
        roles=role_figures(samples, interval_s=options.interval_s),
        first_errors=tuple(dict.fromkeys(users.errors))[:10],
    )
    return figures, samples


def _show(options: argparse.Namespace, ends_s: float, users: Users) -> None:
    left_min = max(ends_s - time.monotonic(), 0.0) / 60
    line = (
        f"\r{left_min:.1f} of {options.minutes:.0f} min left, {users.requests:,} requests, {len(users.outcomes)} jobs  "
    )
    print(line, end="", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the soak and report. Returns 0 if nothing grew and nothing failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--readers", type=int, default=8, help="reading clients")
    parser.add_argument(
        "--pause-s", type=float, default=0.25, help="pause of each client between requests, once settled"
    )
    parser.add_argument("--interval-s", type=float, default=10.0, help="time between samples")
    parser.add_argument(
        "--database", default=None, help="URL of an empty PostgreSQL database (default: SQLite in a new folder)"
    )
    parser.add_argument("--jobs", type=int, default=1000, help="finished jobs in the store at the start")
    parser.add_argument("--records", type=int, default=20_000, help="records in the store at the start")
    parser.add_argument("--output", type=Path, default=None, help="folder for soak.json, its samples and a plot")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tunefarm-soak-") as folder:
        figures, samples = run_soak(options, Path(folder))
    print(table(figures))
    for error in figures.first_errors:
        print(f"error: {error}", file=sys.stderr)
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "soak.json").write_text(figures.model_dump_json(indent=2) + "\n", encoding="utf-8")
        lines = "".join(json.dumps(asdict(sample)) + "\n" for sample in samples)
        (options.output / "soak-samples.jsonl").write_text(lines, encoding="utf-8")
        plot_soak(samples, options.output / "soak.svg")
    return 0 if figures.is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
