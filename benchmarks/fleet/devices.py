"""Devices that poll a real service over loopback, through the stages of a rollout.

``python -m benchmarks.fleet.devices --devices 10000 --output benchmarks/results/fleet`` prints the tables, and writes
them whenever a part is done.
"""

import argparse
import asyncio
import math
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.fleet.policed_rollout import FAILING, SILENT, PolicedRollout, roll_out
from benchmarks.fleet.policed_rollout import HEAD as ROLLOUT_HEAD
from benchmarks.fleet.polled_fleet import CHANNEL, STAGES_PERCENT, PolledFleet, PolledRound, published
from benchmarks.machine import this_machine
from benchmarks.report.markdown_table import machine_line, table
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


@dataclass
class FleetFigures:
    """What has been measured so far."""

    devices: int
    polls_per_s: float
    deadline_s: float
    enrolled_s: float
    rounds: list[PolledStage]
    rollouts: list[PolicedRollout]

    def page(self) -> str:
        """The tables, in Markdown."""
        lines = [
            "# Devices that poll a service",
            "",
            f"{self.devices} devices, enrolled at {self.devices / self.enrolled_s:.0f} a second; "
            f"{self.polls_per_s:g} polls a second, each of which is stored.",
            "One row for each poll of all devices. Busiest tenth: the largest share of a row's polls in",
            "any tenth of the poll interval, if all polled at once at first and then as the service advised.",
            "",
            *table(HEAD, [each.row() for each in self.rounds]),
            "",
            f"Rollouts in which {SILENT:.0%} of the devices fall silent and {FAILING:.0%} fail; "
            f"a device is silent after {self.deadline_s:g} seconds:",
            "",
            *table(ROLLOUT_HEAD, [each.row() for each in self.rollouts]),
            "",
            "## Machine",
            "",
            machine_line(this_machine()),
            "",
        ]
        return "\n".join(lines)


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=10_000)
    parser.add_argument(
        "--polls-per-s", type=float, default=100.0, help="10,000 devices in the field poll 33 times a second"
    )
    parser.add_argument("--deadline-s", type=float, default=240.0, help="of the gate, for silent devices")
    parser.add_argument("--further-rounds", type=int, default=2, help="polls of each device after the last stage began")
    parser.add_argument("--output", type=Path, help="a folder for fleet.md")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        service = ServiceProcess(Path(home), ("--no-tuner",), _ENVIRONMENT)
        service.start()
        try:
            figures = asyncio.run(_measured(service, Path(home), given))
        finally:
            service.stop()
    print(figures.page())
    sys.exit(0 if all(each.is_as_the_policy_says for each in figures.rollouts) else 1)


async def _measured(service: ServiceProcess, home: Path, given: argparse.Namespace) -> FleetFigures:
    fleet = PolledFleet(service)
    begin_s = time.monotonic()
    await fleet.enrol(given.devices)
    figures = FleetFigures(given.devices, given.polls_per_s, given.deadline_s, time.monotonic() - begin_s, [], [])

    def note(what: str) -> None:
        print(f"{time.monotonic() - begin_s:5.0f} s  {what}", file=sys.stderr, flush=True)
        if given.output is not None:
            given.output.mkdir(parents=True, exist_ok=True)
            (given.output / "fleet.md").write_text(figures.page(), encoding="utf-8")

    note(f"enrolled {given.devices} devices")
    store = Store.open(f"sqlite:///{home}/tunefarm.db", home / "blobs")
    try:
        # What publishing does after it has verified the signatures.
        store.rollouts.announce(Actor(TENANT, None, time.time()), published())
        await _poll_rounds(fleet, service, figures, given.further_rounds, note)
        # Twice of what the fleet loses is permitted, and half of it.
        for sequence, factor in enumerate((2.0, 0.5), start=2):
            gate = GatePolicy(
                stages_percent=STAGES_PERCENT,
                max_failed_percent=100 * factor * (SILENT + FAILING),
                deadline_s=given.deadline_s,
            )
            ended = await roll_out(fleet, service, store, sequence, gate, given.polls_per_s, note)
            figures.rollouts.append(ended)
            note(f"rollout {ended.state} at {ended.stage_percent}%: {ended.reason}")
    finally:
        store.close()
    return figures


async def _poll_rounds(
    fleet: PolledFleet,
    service: ServiceProcess,
    figures: FleetFigures,
    further_rounds: int,
    note: Callable[[str], None],
) -> None:
    """One poll of each device in each stage, and some more after the last began."""
    for number, percent in enumerate((*STAGES_PERCENT, *(100,) * further_rounds)):
        if 0 < number < len(STAGES_PERCENT):
            with service.client() as client:
                client.post(f"/v1/channels/{CHANNEL}:advance", json={}).raise_for_status()
        before_s = _cpu_s(service)
        polled = await fleet.poll(figures.polls_per_s)
        figures.rounds.append(PolledStage(percent, polled, 1e3 * (_cpu_s(service) - before_s) / figures.devices))
        note(f"polled all devices at {percent}%")


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
