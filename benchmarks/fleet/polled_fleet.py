"""A service with enrolled devices and a channel, whose devices are polled from one event loop."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import httpx

from benchmarks.service.service_process import ServiceProcess
from tunefarm_schemas.edge.device import EdgeAdvice, EdgeFacts, EdgePoll, Enrolment, EnrolmentRequest
from tunefarm_schemas.edge.release import ChannelDocument, GatePolicy, Release, ReleaseFile, ReleaseVariant
from tunefarm_schemas.frozen import digest

CHANNEL: Final = "stable"
STAGES_PERCENT: Final = (1, 10, 50, 100)
_FREE_BYTES: Final = 1 << 32
_NEWS_BYTES: Final = 1 << 25
"""Free space that changes by so much is stored. In the field every poll is stored, because the last is minutes ago."""
_CONNECTIONS: Final = 32

T = TypeVar("T")


@dataclass
class PolledDevice:
    """An enrolled device.

    Attributes:
        due_s: when it would poll next, by the advice of the service, from its enrolment.
    """

    token: str
    running: str | None = None
    due_s: float = 0.0
    polls: int = 0
    reports: int = 0


@dataclass(frozen=True)
class PolledRound:
    """One poll of each device.

    Attributes:
        latencies_s: from the time at which each poll was due to be sent until its answer.
        due_s: when the devices would have polled in the field.
    """

    latencies_s: list[float] = field(default_factory=list)
    due_s: list[float] = field(default_factory=list)
    devices_by_release: dict[str | None, int] = field(default_factory=dict)


class PolledFleet:
    """Devices of one channel."""

    def __init__(self, service: ServiceProcess) -> None:
        """Nothing is sent yet."""
        self._service = service
        self.devices: list[PolledDevice] = []

    async def enrol(self, count: int) -> None:
        """Enrol devices, each by a code of its own. Raises httpx.HTTPStatusError."""

        async def one(client: httpx.AsyncClient, number: int) -> PolledDevice:
            owner = {"Authorization": f"Bearer {self._service.token}"}
            code = await _posted(client, "/v1/fleet/enrolment-codes", {"channel": CHANNEL}, owner)
            request = EnrolmentRequest(code=code["text"], name=f"device {number}", facts=_facts(0))
            made = await _posted(client, "/v1/edge/enrolments", request.model_dump(mode="json"), {})
            return PolledDevice(Enrolment.model_validate(made).token)

        self.devices = await self._each(range(count), one)

    async def poll(self, polls_per_s: float, without: AbstractSet[int] = frozenset()) -> PolledRound:
        """Poll each device once, at a constant rate that does not wait for answers. Raises httpx.HTTPStatusError."""
        done = PolledRound()
        begin_s = time.monotonic()
        polling = [number for number in range(len(self.devices)) if number not in without]

        async def one(client: httpx.AsyncClient, at: int) -> None:
            device = self.devices[polling[at]]
            due_s = begin_s + at / polls_per_s
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            device.polls += 1
            said = EdgePoll(facts=_facts(device.polls), running=device.running)
            headers = {"Authorization": f"Bearer {device.token}"}
            answer = await _posted(client, "/v1/edge/polls", said.model_dump(mode="json"), headers)
            done.latencies_s.append(time.monotonic() - due_s)
            advice = EdgeAdvice.model_validate(answer)
            done.due_s.append(device.due_s)
            device.due_s += advice.poll_after_s
            device.running = advice.release
            done.devices_by_release[advice.release] = done.devices_by_release.get(advice.release, 0) + 1

        await self._each(range(len(polling)), one)
        return done

    async def report(self, bodies: Mapping[int, Sequence[dict[str, object]]]) -> None:
        """Send the reports of devices, by their places. Raises httpx.HTTPStatusError."""

        async def one(client: httpx.AsyncClient, number: int) -> None:
            device = self.devices[number]
            reports = []
            for body in bodies[number]:
                device.reports += 1
                reports.append({"report_id": f"report-{device.reports}", "at": "2026-01-01T00:00:00Z", "body": body})
            headers = {"Authorization": f"Bearer {device.token}"}
            answer = await client.post("/v1/edge/reports", json={"reports": reports}, headers=headers)
            answer.raise_for_status()

        await self._each(list(bodies), one)

    async def _each(self, numbers: Sequence[int], action: Callable[[httpx.AsyncClient, int], Awaitable[T]]) -> list[T]:
        limits = httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS)
        waiting = iter(numbers)
        found: list[T] = []

        async def work(client: httpx.AsyncClient) -> None:
            found.extend([await action(client, number) for number in waiting])

        async with httpx.AsyncClient(base_url=self._service.url, limits=limits, timeout=60.0) as client:
            await asyncio.gather(*(work(client) for _ in range(_CONNECTIONS)))
        return found


def published(
    sequence: int = 1, current: str = "cnn-2", previous: str = "cnn-1", gate: GatePolicy | None = None
) -> ChannelDocument:
    """A channel's document with two releases that every device can run."""
    return ChannelDocument(
        channel=CHANNEL,
        sequence=sequence,
        issued="2026-01-01T00:00:00Z",
        expires="2100-01-01T00:00:00Z",
        current=_release(current),
        previous=_release(previous),
        gate=gate or GatePolicy(stages_percent=STAGES_PERCENT),
    )


def _release(name: str) -> Release:
    manifest = ReleaseFile(path="manifest.json", size_bytes=9000, digest=digest(name))
    variant = ReleaseVariant.model_validate(
        {
            "architecture": "aarch64",
            "cpu_features": ("asimd",),
            "free_bytes": 1_000_000,
            "memory_bytes": 500_000,
            "latency_p50_s": 1e-3,
            "latency_p95_s": 1.2e-3,
            "manifest": manifest,
            "files": (),
        }
    )
    return Release(name=name, model="cnn", variants=(variant,))


def _facts(polls: int) -> EdgeFacts:
    return EdgeFacts(
        architecture="aarch64",
        cpu_features=("asimd", "asimddp"),
        agent_version="0.1.0",
        runtime_abi=1,
        free_bytes=_FREE_BYTES - _NEWS_BYTES * (polls % 2),
    )


async def _posted(client: httpx.AsyncClient, path: str, body: object, headers: dict[str, str]) -> dict[str, Any]:
    answer = await client.post(path, json=body, headers=headers)
    answer.raise_for_status()
    content: dict[str, Any] = answer.json()
    return content
