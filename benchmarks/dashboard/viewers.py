"""Many viewers of one running job, over loopback."""

import asyncio
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import httpx
import psutil

from benchmarks.dashboard.figures import ViewerFigures, quantile
from benchmarks.dashboard.large_job import EVENT_INTERVAL_S, LargeJob, progress_of
from benchmarks.dashboard.service import ServedStore
from tunefarm_services.store import Lease

_SHOWN: Final = re.compile(r"<b>(\d+) of \d+</b>")
_CHART_INTERVAL_S: Final = 3.0
_RECONNECT_AFTER_S: Final = 1.0
_CONNECT_WITHIN_S: Final = 120.0
_SETTLE_S: Final = 10.0


@dataclass
class Viewer:
    """An open page. ``seen_s`` has the time at which it showed each number of trials."""

    path: str
    chart_path: str
    cookies: dict[str, str]
    seen_s: dict[int, float] = field(default_factory=dict)
    last_id: str = ""
    charts: int = 0
    is_connected: bool = False
    ends: bool = False

    async def watch(self, url: str) -> None:
        """Follow the job, and fetch its chart, until ``ends``."""
        limits = httpx.Limits(max_connections=2)
        async with httpx.AsyncClient(base_url=url, cookies=self.cookies, limits=limits, timeout=60.0) as client:
            charts = asyncio.create_task(self._draw(client))
            while not self.ends:
                try:
                    await self._follow(client)
                except httpx.TransportError:
                    self.is_connected = False
                    await asyncio.sleep(_RECONNECT_AFTER_S)
            charts.cancel()

    async def _follow(self, client: httpx.AsyncClient) -> None:
        headers = {"Last-Event-ID": self.last_id} if self.last_id else {}
        async with client.stream("GET", self.path, headers=headers) as response:
            self.is_connected = response.status_code == 200
            async for line in response.aiter_lines():
                if line.startswith("id: "):
                    self.last_id = line[4:]
                elif found := _SHOWN.search(line):
                    self.seen_s.setdefault(int(found[1]), time.time())
                if self.ends:
                    return

    async def _draw(self, client: httpx.AsyncClient) -> None:
        while True:
            await asyncio.sleep(_CHART_INTERVAL_S)
            try:
                answer = await client.get(self.chart_path)
                self.charts += answer.is_success
            except httpx.TransportError:
                continue


@dataclass
class Writer:
    """Writes events of a running job as its tuner does. ``written_s`` has the time of the commit of each."""

    served: ServedStore
    lease: Lease
    budget: int
    written_s: dict[int, float] = field(default_factory=dict)

    def write(self, trials: int) -> None:
        """Report progress."""
        data = progress_of(trials, self.budget).model_dump(mode="json")
        self.served.store.events.append(self.lease, "progress", data)
        self.written_s[trials] = time.time()


def watched(served: ServedStore, job: LargeJob, writer: Writer, viewers: int, events: int) -> ViewerFigures:
    """Write ``events`` events while ``viewers`` watch; then kill the API, write one more, and start it again."""
    page = f"/dashboard/jobs/{job.job_id}"
    after = served.store.events.last_sequence(writer.lease.tenant, job.job_id)
    everyone = [
        Viewer(f"{page}/live?after={after}", f"{page}/chart?exploration={job.exploration_id}", served.cookies())
        for _ in range(viewers)
    ]
    loop = threading.Thread(target=lambda: asyncio.run(_watch(everyone, served.service.url)))
    loop.start()
    try:
        _wait(lambda: all(viewer.is_connected for viewer in everyone))
        first = max(writer.written_s, default=0)
        cpu_s, began_s, charts = _cpu_s(served), time.monotonic(), sum(viewer.charts for viewer in everyone)
        numbers = [first + number for number in range(1, events + 1)]
        for number in numbers:
            writer.write(number)
            time.sleep(EVENT_INTERVAL_S)
        seconds, used_s = time.monotonic() - began_s, _cpu_s(served) - cpu_s
        drawn = sum(viewer.charts for viewer in everyone) - charts
        server_bytes = sum(process.memory_info().rss for process in served.service.api_processes)
        served.service.kill()
        writer.write(numbers[-1] + 1)
        served.service.start()
        _wait(lambda: all(numbers[-1] + 1 in viewer.seen_s for viewer in everyone), _SETTLE_S + _CONNECT_WITHIN_S)
    finally:
        for viewer in everyone:
            viewer.ends = True
        writer.write(max(writer.written_s, default=0) + 1)
        loop.join()
    delays_s = [v.seen_s[n] - writer.written_s[n] for v in everyone for n in numbers if n in v.seen_s] or [0.0]
    return ViewerFigures(
        viewers=viewers,
        events=events,
        lost=sum(number not in viewer.seen_s for viewer in everyone for number in numbers),
        behind=sum(numbers[-1] + 1 not in viewer.seen_s for viewer in everyone),
        kills=1,
        delays_s=(quantile(delays_s, 0.5), quantile(delays_s, 0.99), max(delays_s)),
        charts=drawn,
        seconds=seconds,
        cpu_share=used_s / seconds,
        cpu_ms_per_viewer_s=1e3 * used_s / seconds / viewers,
        server_bytes=server_bytes,
    )


async def _watch(everyone: Sequence[Viewer], url: str) -> None:
    await asyncio.gather(*(viewer.watch(url) for viewer in everyone))


def _cpu_s(served: ServedStore) -> float:
    times = [psutil.Process(process.pid).cpu_times() for process in served.service.api_processes]
    return float(sum(each.user + each.system for each in times))


def _wait(condition: Callable[[], bool], within_s: float = _CONNECT_WITHIN_S) -> None:
    """Wait until it holds, or the time is over: the figures then show what was missing."""
    deadline_s = time.monotonic() + within_s
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.05)
