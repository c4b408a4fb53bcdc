"""Devices that speak the protocol of agents to a real service, and report the latencies that they are given."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import httpx

FACTS = {
    "architecture": "aarch64",
    "cpu_features": ["asimd", "fp"],
    "agent_version": "0.1.0",
    "runtime_abi": 1,
    "free_bytes": 1 << 32,
}
AT = "2027-01-15T08:00:00Z"


@dataclass
class ReportingDevice:
    """One device: it installs at once what it is advised to run."""

    client: httpx.Client
    headers: dict[str, str]
    spread: float
    running: str | None = None
    reports: int = 0

    def poll(self) -> None:
        said = {"facts": FACTS, "running": self.running}
        advice = self._post("/v1/edge/polls", said).json()
        if advice["release"] != self.running:
            self.running = advice["release"]
            self.report({"kind": "install", "release": self.running, "failure": None})

    def report(self, body: dict[str, object]) -> None:
        self.reports += 1
        report = {"report_id": f"report-{self.reports}", "at": AT, "body": body}
        self._post("/v1/edge/reports", {"reports": [report]})

    def report_latency(self, p50_s: float) -> None:
        """The latency of what it runs, which differs between devices."""
        own_s = p50_s * self.spread
        seconds = {"mean_s": own_s, "p50_s": own_s, "p95_s": 1.1 * own_s, "max_s": 2 * own_s}
        self.report({"kind": "latency", "release": self.running, "runs": 100, **seconds})

    def _post(self, path: str, body: object) -> httpx.Response:
        return self.client.post(path, json=body, headers=self.headers).raise_for_status()


@dataclass
class ReportingFleet:
    """Devices of one channel, enrolled by the owner's client."""

    owner: httpx.Client
    devices: list[ReportingDevice]

    @classmethod
    def enrolled(cls, owner: httpx.Client, channel: str, count: int) -> "ReportingFleet":
        draw, devices = random.Random(7), []
        for number in range(count):
            code = owner.post("/v1/fleet/enrolment-codes", json={"channel": channel}).raise_for_status().json()["text"]
            request = {"code": code, "name": f"device {number}", "facts": FACTS}
            token = owner.post("/v1/edge/enrolments", json=request).raise_for_status().json()["token"]
            headers = {"Authorization": f"Bearer {token}"}
            devices.append(ReportingDevice(owner, headers, draw.uniform(0.97, 1.03)))
        return cls(owner, devices)

    def each_polls(self, latency_s: Callable[[str], float]) -> None:
        """Each device polls, and reports the latency of what it then runs."""
        for device in self.devices:
            device.poll()
            if device.running is not None:
                device.report_latency(latency_s(device.running))
