"""A rollout to polled devices of which some fall silent and some fail, until the gate has finished or stopped it."""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from benchmarks.fleet.polled_fleet import CHANNEL, PolledDevice, PolledFleet, published
from benchmarks.service.service_process import ServiceProcess
from tunefarm_schemas.edge.release import GatePolicy
from tunefarm_schemas.views.fleet import ChannelView
from tunefarm_services.store import Store
from tunefarm_services.store.fleet.audit_repository import Actor
from tunefarm_services.store.fleet.rollout_repository import EVALUATE_EVERY_S

SILENT: Final = 0.03
FAILING: Final = 0.01
EXPECTED_S: Final = (1e-3, 1.2e-3)
"""What the manifest of the benchmark's releases says: p50 and p95."""
_MAX_ROUNDS: Final = 40

Fate = Literal["fine", "silent", "failing"]


@dataclass(frozen=True)
class PolicedRollout:
    """How a rollout ended.

    Attributes:
        state: of the channel.
        reached: devices that were given the release.
        lost: those of them that fell silent or failed.
    """

    max_failed_percent: float
    state: str
    stage_percent: int
    reached: int
    lost: int
    seconds: float
    reason: str

    @property
    def is_as_the_policy_says(self) -> bool:
        """Whether it stopped exactly if more devices were lost than permitted."""
        is_exceeded = self.lost > self.max_failed_percent / 100 * self.reached
        return self.state == ("stopped" if is_exceeded else "finished")

    def row(self) -> tuple[str, ...]:
        """The cells of the table."""
        share = f"{self.lost / max(1, self.reached):.1%}"
        verdict = "yes" if self.is_as_the_policy_says else "NO"
        state = f"{self.state} at {self.stage_percent}%"
        return f"{self.max_failed_percent:g}%", state, str(self.reached), share, f"{self.seconds:.0f}", verdict


HEAD: Final = ("permitted", "ended", "devices given it", "silent or failed", "seconds", "as the policy says")


async def roll_out(
    fleet: PolledFleet,
    service: ServiceProcess,
    store: Store,
    sequence: int,
    gate: GatePolicy,
    polls_per_s: float,
    note: Callable[[str], None],
) -> PolicedRollout:
    """Announce a new release, and let devices poll and report until the gate has decided, or for 40 rounds.

    ``note`` gets the state of the channel after each round.
    """
    name, before = f"cnn-{sequence + 1}", f"cnn-{sequence}"
    began_s = time.monotonic()
    store.rollouts.announce(Actor("local", None, time.time()), published(sequence, name, before, gate))
    fates = _fates(len(fleet.devices), sequence)
    reached: set[int] = set()
    silenced: set[int] = set()
    for _ in range(_MAX_ROUNDS):
        await fleet.poll(polls_per_s, without=silenced)
        new = [at for at, each in enumerate(fleet.devices) if each.running == name and at not in reached]
        reached.update(new)
        silenced.update(at for at in new if fates[at] == "silent")
        await fleet.report(
            {at: _reports(name, before, fates[at], fleet.devices[at]) for at in new if at not in silenced}
        )
        channel = _channel(service)
        note(f"{channel.state} at {channel.stage_percent}%, {len(reached)} devices were given {name}")
        if channel.state != "running":
            break
        await asyncio.sleep(EVALUATE_EVERY_S / 4)
    for at in silenced:
        fleet.devices[at].running = before
    lost = sum(fates[at] != "fine" for at in reached)
    seconds = time.monotonic() - began_s
    return PolicedRollout(
        gate.max_failed_percent, channel.state, channel.stage_percent, len(reached), lost, seconds, channel.reason
    )


def _fates(devices: int, seed: int) -> list[Fate]:
    silent, failing = round(SILENT * devices), round(FAILING * devices)
    counts: dict[Fate, int] = {"silent": silent, "failing": failing, "fine": devices - silent - failing}
    fates = [fate for fate, count in counts.items() for _ in range(count)]
    random.Random(seed).shuffle(fates)
    return fates


def _reports(name: str, before: str, fate: Fate, device: PolledDevice) -> list[dict[str, object]]:
    """What a device reports after its installation; one that fails stays with the release before."""
    if fate == "failing":
        device.running = before
        return [{"kind": "install", "release": name, "failure": "self_test_failed"}]
    spread = random.uniform(0.97, 1.03)
    p50_s, p95_s = (each * spread for each in EXPECTED_S)
    latency = {"kind": "latency", "release": name, "runs": 100, "mean_s": p50_s, "p50_s": p50_s, "p95_s": p95_s}
    return [{"kind": "install", "release": name, "failure": None}, {**latency, "max_s": 2 * p95_s}]


def _channel(service: ServiceProcess) -> ChannelView:
    with service.client() as client:
        answer = client.get(f"/v1/channels/{CHANNEL}")
    answer.raise_for_status()
    return ChannelView.model_validate(answer.json())
