"""Checks that every watcher of a job receives each event once and in order while the API is killed and restarted.

    python -m benchmarks.load.event_stream --watchers 50 --events 600 --kills 2

Watchers use only the protocol: on reconnection they send the last event's ``id`` as ``Last-Event-ID``.
"""

import argparse
import asyncio
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import httpx

from benchmarks.load.synthetic_jobs import SyntheticJobs
from benchmarks.service.service_process import ServiceProcess
from benchmarks.store.synthetic_records import TENANT, SyntheticRecords
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.token import Scope
from tunefarm_schemas.tuning.job import JobOutcome, JobState
from tunefarm_services.settings import Settings
from tunefarm_services.store import Lease, Store

_RECONNECT_AFTER_S: Final = 0.1
_FOLLOW_WITHIN_S: Final = 120.0
_EVENTS_BEFORE_KILL: Final = 10
"""Events that every watcher receives between two kills."""


class StreamFigures(Frozen):
    """The result. A lag is the time from writing an event to its arrival; those of a restart are excluded."""

    watchers: int
    events: int
    kills: int
    connections: int
    watchers_with_all_events_in_order: int
    lag_p50_s: float
    lag_p99_s: float
    ready_again_s: tuple[float, ...]


@dataclass
class Watcher:
    """One reader of a job's events, over any number of connections.

    Attributes:
        seen: numbers of events in order of arrival.
        lags_s: of events written while connected.
        connections: how many were opened.
    """

    url: str
    headers: dict[str, str]
    seen: list[int] = field(default_factory=list)
    lags_s: list[float] = field(default_factory=list)
    connections: int = 0
    _is_at_end: bool = False

    async def follow(self) -> None:
        """Read until the summary. Raises TimeoutError."""
        async with asyncio.timeout(_FOLLOW_WITHIN_S), httpx.AsyncClient(timeout=httpx.Timeout(30.0)) as client:
            while not self._is_at_end:
                try:
                    await self._read(client)
                except httpx.TransportError:
                    await asyncio.sleep(_RECONNECT_AFTER_S)

    async def _read(self, client: httpx.AsyncClient) -> None:
        resumed = {"Last-Event-ID": str(self.seen[-1])} if self.seen else {}
        async with client.stream("GET", self.url, headers={**self.headers, **resumed}) as response:
            if response.status_code != 200:
                raise httpx.ReadError(f"status {response.status_code}")
            self.connections += 1
            opened_at = datetime.now(UTC)
            fields: dict[str, str] = {}
            async for line in response.aiter_lines():
                if line:
                    name, _, value = line.partition(":")
                    fields[name] = value.removeprefix(" ")
                elif "id" in fields:
                    self._take(fields, opened_at)
                    fields = {}

    def _take(self, fields: dict[str, str], opened_at: datetime) -> None:
        self.seen.append(int(fields["id"]))
        self._is_at_end = fields["event"] == "summary"
        written_at = datetime.fromisoformat(fields["data"].partition('"at":"')[2].partition('"')[0])
        if written_at > opened_at:
            self.lags_s.append((datetime.now(UTC) - written_at).total_seconds())


def watched(folder: Path, *, watchers: int, events: int, kills: int, pause_s: float = 0.01) -> StreamFigures:
    """Write ``events`` events to a job while ``watchers`` follow it and the API with home ``folder`` is killed."""
    settings = Settings(home=folder)
    store = Store.open(settings.database(), settings.blobs())
    service = ServiceProcess(folder, ["--no-tuner"])
    try:
        service.start()
        job_id, lease = _job(store)
        _, text = store.tokens.create(TENANT, "watcher", (Scope.JOBS_READ,))
        following = [
            Watcher(f"{service.url}/v1/jobs/{job_id}/events", {"Authorization": f"Bearer {text}"})
            for _ in range(watchers)
        ]
        ready_again_s: list[float] = []
        killer = threading.Thread(target=_kill, args=(service, kills, following, ready_again_s))
        writer = threading.Thread(target=_write, args=(store, lease, events, pause_s, killer))
        killer.start()
        writer.start()
        asyncio.run(_follow(following))
        writer.join()
        killer.join()
        last = store.events.of_job(TENANT, job_id)[-1].sequence
    finally:
        service.stop()
        store.close()
    lags_s = sorted(lag_s for watcher in following for lag_s in watcher.lags_s) or [0.0]
    all_numbers = list(range(1, last + 1))
    return StreamFigures(
        watchers=watchers,
        events=last,
        kills=kills,
        connections=sum(watcher.connections for watcher in following),
        watchers_with_all_events_in_order=sum(watcher.seen == all_numbers for watcher in following),
        lag_p50_s=lags_s[len(lags_s) // 2],
        lag_p99_s=lags_s[int(0.99 * len(lags_s))],
        ready_again_s=tuple(ready_again_s),
    )


def _job(store: Store) -> tuple[str, Lease]:
    job = SyntheticJobs(store, SyntheticRecords(10, seed=0)).queue(0)
    lease = store.leases.acquire(TENANT, job.job_id, "writer", 600.0)
    assert lease is not None
    return job.job_id, lease


def _write(store: Store, lease: Lease, events: int, pause_s: float, killer: threading.Thread) -> None:
    """Write at least ``events`` events, and continue until after the last kill."""
    written = 0
    while written < events or killer.is_alive():
        store.events.append(lease, "progress", {"trials_done": written})
        written += 1
        time.sleep(pause_s)
    store.jobs.set_state(lease, JobState.FINISHED, JobOutcome.SUCCEEDED)
    store.events.append(lease, "summary", {"outcome": "succeeded", "tasks": []})


def _kill(service: ServiceProcess, kills: int, watchers: Sequence[Watcher], ready_again_s: list[float]) -> None:
    """Kill the API whenever every watcher has received events from it; then wait for that once more."""
    deadline_s = time.monotonic() + _FOLLOW_WITHIN_S
    for number in range(kills + 1):
        before = [len(watcher.seen) for watcher in watchers]
        while time.monotonic() < deadline_s and not all(
            len(watcher.seen) >= count + _EVENTS_BEFORE_KILL for watcher, count in zip(watchers, before, strict=True)
        ):
            time.sleep(0.02)
        if number < kills:
            service.kill()
            service.start()
            ready_again_s.append(service.ready_s)


async def _follow(watchers: Sequence[Watcher]) -> None:
    await asyncio.gather(*(watcher.follow() for watcher in watchers))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and report. Returns 0 if every watcher received every event once and in order."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--watchers", type=int, default=50)
    parser.add_argument("--events", type=int, default=600)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--output", type=Path, default=None, help="folder for event-stream.json")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tunefarm-events-") as folder:
        figures = watched(Path(folder), watchers=options.watchers, events=options.events, kills=options.kills)
    print(
        f"{figures.watchers_with_all_events_in_order} of {figures.watchers} watchers saw all {figures.events} events "
        f"once and in order, over {figures.connections} connections and {figures.kills} kills of the API; "
        f"lag p50 {figures.lag_p50_s * 1e3:.0f} ms, p99 {figures.lag_p99_s * 1e3:.0f} ms; ready again after "
        + ", ".join(f"{seconds:.2f} s" for seconds in figures.ready_again_s)
    )
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "event-stream.json").write_text(figures.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return 0 if figures.watchers_with_all_events_in_order == figures.watchers else 1


if __name__ == "__main__":
    sys.exit(main())
