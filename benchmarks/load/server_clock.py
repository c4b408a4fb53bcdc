"""Processor time of the service, its children and the clients, and the service's own latency metrics."""

import re
import time
from dataclasses import dataclass
from typing import Final, Self

import psutil

from benchmarks.load.load_figures import READ_GOAL_S
from benchmarks.service.service_process import ServiceProcess

_BUCKET: Final = re.compile(
    r'tunefarm_http_request_seconds_bucket\{le="([^"]+)",method="GET",route="/v1/[^"]*"\} (\S+)'
)


@dataclass(frozen=True, slots=True)
class Used:
    """Differences between two readings. Processor time is in cores."""

    api_cores: float
    children_cores: float
    clients_cores: float
    share_of_reads_within_goal: float


@dataclass(frozen=True, slots=True)
class ServerClock:
    """One reading: seconds of processor time, and numbers of reads."""

    at_s: float
    api_s: float
    children_s: float
    clients_s: float
    reads: float
    reads_within_goal: float

    @classmethod
    def read(cls, service: ServiceProcess, clients: psutil.Process) -> Self:
        """Read the current values."""
        api = [process.cpu_times() for process in service.api_processes]
        children_s = sum(own.children_user + own.children_system for own in api)
        for child in (child for process in service.api_processes for child in process.children(recursive=True)):
            try:
                times = child.cpu_times()
            except psutil.NoSuchProcess:
                continue
            children_s += times.user + times.system + times.children_user + times.children_system
        client_times = clients.cpu_times()
        with service.client() as client:
            text = client.get("/metrics").text
        counts: dict[str, float] = {}
        for bound, value in _BUCKET.findall(text):
            counts[bound] = counts.get(bound, 0.0) + float(value)
        return cls(
            at_s=time.monotonic(),
            api_s=sum(own.user + own.system for own in api),
            children_s=children_s,
            clients_s=client_times.user + client_times.system,
            reads=counts.get("+Inf", 0.0),
            reads_within_goal=counts.get(str(READ_GOAL_S), 0.0),
        )

    def since(self, before: "ServerClock") -> Used:
        """The difference to ``before``."""
        seconds = self.at_s - before.at_s
        return Used(
            api_cores=(self.api_s - before.api_s) / seconds,
            children_cores=(self.children_s - before.children_s) / seconds,
            clients_cores=(self.clients_s - before.clients_s) / seconds,
            share_of_reads_within_goal=(self.reads_within_goal - before.reads_within_goal)
            / max(self.reads - before.reads, 1.0),
        )
