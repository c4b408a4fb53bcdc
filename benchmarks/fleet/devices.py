"""Devices that poll a real service over loopback, through the stages of a rollout.

``python -m benchmarks.fleet.devices --devices 10000`` prints a table.
"""

import argparse
import asyncio
import math
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.fleet.policed_rollout import FAILING, SILENT, PolicedRollout, roll_out
from benchmarks.fleet.policed_rollout import HEAD as ROLLOUT_HEAD
from benchmarks.fleet.polled_fleet import CHANNEL, STAGES_PERCENT, PolledFleet, PolledRound, published
from benchmarks.report.markdown_table import table
from benchmarks.service.service_process import ServiceProcess
from tunefarm_schemas.edge.release import GatePolicy
from tunefarm_services.store import Store
from tunefarm_services.store.fleet.audit_repository import Actor

TENANT: Final = "local"
INTERVAL_S: Final = 300.0
_ENVIRONMENT: Final = {"TUNEFARM_RATE_LIMIT": "1000000/second", "TUNEFARM_EDGE_POLL_S": f"{INTERVAL_S:g}"}
_WINDOWS: Final = 10


@dataclass(frozen=True)
class PolledStage:
    """One poll of each device, in a stage of the rollout."""

    percent: int
    polled: PolledRound
    cpu_ms_per_poll: float

    def row(self) -> tuple[str, ...]:
        """The cells of the table."""
        devices = len(self.polled.latencies_s)
        given = self.polled.devices_by_release.get("cnn-2", 0)
        ordered_ms = sorted(1e3 * latency_s for latency_s in self.polled.latencies_s)
        return (
            f"{self.percent}%",
            str(given),
            str(math.ceil(devices * self.percent / 100)),
            f"{self.cpu_ms_per_poll:.2f}",
            f"{ordered_ms[devices // 2]:.1f}",
            f"{ordered_ms[min(devices - 1, int(0.99 * devices))]:.1f}",
            f"{_busiest_share(self.polled.due_s):.0%}",
        )


HEAD: Final = (
    "stage",
    "devices given the release",
    "expected",
    "API CPU ms a poll",
    "p50 ms",
    "p99 ms",
    "busiest tenth",
)


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=10_000)
    parser.add_argument(
        "--polls-per-s", type=float, default=100.0, help="10,000 devices in the field poll 33 times a second"
    )
    parser.add_argument("--deadline-s", type=float, default=600.0, help="of the gate, for silent devices")
    parser.add_argument("--further-rounds", type=int, default=4, help="polls of each device after the last stage began")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        service = ServiceProcess(Path(home), ("--no-tuner",), _ENVIRONMENT)
        service.start()
        try:
            enrolled_s, rounds, rollouts = asyncio.run(_measured(service, Path(home), given))
        finally:
            service.stop()
    print(
        f"{given.devices} devices, enrolled at {given.devices / enrolled_s:.0f} a second; "
        f"{given.polls_per_s:g} polls a second, each of which is stored.\n"
        "One row for each poll of all devices. Busiest tenth: the largest share of a row's polls in\n"
        "any tenth of the poll interval, if all polled at once at first and then as the service advised.\n"
    )
    print("\n".join(table(HEAD, [each.row() for each in rounds])))
    print(f"\nRollouts in which {SILENT:.0%} of the devices fall silent and {FAILING:.0%} fail:\n")
    print("\n".join(table(ROLLOUT_HEAD, [each.row() for each in rollouts])))
    sys.exit(0 if all(each.is_as_the_policy_says for each in rollouts) else 1)


async def _measured(
    service: ServiceProcess, home: Path, given: argparse.Namespace
) -> tuple[float, list[PolledStage], list[PolicedRollout]]:
    fleet = PolledFleet(service)
    begin_s = time.monotonic()
    await fleet.enrol(given.devices)
    enrolled_s = time.monotonic() - begin_s
    store = Store.open(f"sqlite:///{home}/tunefarm.db", home / "blobs")
    try:
        # What publishing does after it has verified the signatures.
        store.rollouts.announce(Actor(TENANT, None, time.time()), published())
        rounds = await _polled_rounds(fleet, service, given)
        # Twice of what the fleet loses is permitted, and half of it.
        gates = [
            GatePolicy(
                stages_percent=STAGES_PERCENT,
                max_failed_percent=100 * factor * (SILENT + FAILING),
                deadline_s=given.deadline_s,
            )
            for factor in (2.0, 0.5)
        ]
        rollouts = [
            await roll_out(fleet, service, store, sequence, gate, given.polls_per_s)
            for sequence, gate in enumerate(gates, start=2)
        ]
    finally:
        store.close()
    return enrolled_s, rounds, rollouts


async def _polled_rounds(fleet: PolledFleet, service: ServiceProcess, given: argparse.Namespace) -> list[PolledStage]:
    """One poll of each device in each stage, and some more after the last began."""
    rounds = []
    for number, percent in enumerate((*STAGES_PERCENT, *(100,) * given.further_rounds)):
        if 0 < number < len(STAGES_PERCENT):
            with service.client() as client:
                client.post(f"/v1/channels/{CHANNEL}:advance", json={}).raise_for_status()
        before_s = _cpu_s(service)
        polled = await fleet.poll(given.polls_per_s)
        rounds.append(PolledStage(percent, polled, 1e3 * (_cpu_s(service) - before_s) / given.devices))
    return rounds


def _busiest_share(due_s: list[float]) -> float:
    """The largest share of the polls in any window of a tenth of the interval."""
    window_s = INTERVAL_S / _WINDOWS
    ordered = sorted(due_s)
    most = begin = 0
    for end, at_s in enumerate(ordered):
        while ordered[begin] <= at_s - window_s:
            begin += 1
        most = max(most, end - begin + 1)
    return most / len(ordered)


def _cpu_s(service: ServiceProcess) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in service.api_processes)


if __name__ == "__main__":
    main()
