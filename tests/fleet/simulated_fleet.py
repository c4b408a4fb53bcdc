"""A fleet in virtual time: devices that install, report, fail or fall silent, judged by the gate.

``python -m tests.fleet.simulated_fleet [STAGES]`` prints the error rates of the gate, by default from 1000 stages each.
"""

import math
import random
import sys
from dataclasses import dataclass
from typing import Literal

from tunefarm_schemas.edge.release import GatePolicy
from tunefarm_services.fleet.gate import Quantiles, StageDevice, judged
from tunefarm_services.fleet.stage import cutoff, device_number

HOUR_S = 3600.0
MANIFEST = Quantiles(1e-3, 1.2e-3)


@dataclass(frozen=True)
class SimulatedFleet:
    """How devices take a release.

    Attributes:
        slowdown: of the release on every device, against its manifest.
        spread: standard deviation of the logarithm of devices' latencies.
    """

    devices: int
    slowdown: float = 1.0
    silent: float = 0.0
    failing: float = 0.0
    spread: float = 0.04

    def rollout(self, policy: GatePolicy, seed: int) -> "Outcome":
        """Roll a release out until it is finished or stopped, or does not go on for ten deadlines."""
        draw = random.Random(seed)
        name = f"cnn-{seed}"
        fates = {
            device_number(f"{number:016x}", name): self._fate(draw, policy.deadline_s) for number in range(self.devices)
        }
        begun_s = 0.0
        for percent in policy.stages_percent:
            limit = cutoff(fates, percent)
            members = [fate for number, fate in fates.items() if number < limit]
            # Devices of earlier stages have reported long ago.
            outcome, begun_s = _stage(policy, members, begun_s)
            if outcome != "advance":
                return Outcome(outcome, percent, members)
        return Outcome("finished", 100, list(fates.values()))

    def _fate(self, draw: random.Random, deadline_s: float) -> "Fate":
        kind: Literal["silent", "failing", "fine"] = "fine"
        place = draw.random()
        if place < self.silent:
            kind = "silent"
        elif place < self.silent + self.failing:
            kind = "failing"
        factor = self.slowdown * math.exp(draw.gauss(0.0, self.spread))
        tail = math.exp(abs(draw.gauss(0.0, self.spread)) / 4)
        field = Quantiles(MANIFEST.p50_s * factor, MANIFEST.p95_s * factor * tail)
        return Fate(kind, draw.uniform(0.0, 0.4 * deadline_s), field)


@dataclass(frozen=True)
class Fate:
    """What becomes of one device: its kind, when it reports after the begin of its stage, and its latencies."""

    kind: Literal["silent", "failing", "fine"]
    reports_after_s: float
    field: Quantiles

    def seen(self, begun_s: float, now_s: float) -> StageDevice:
        """The device as the gate sees it."""
        has_reported = self.kind != "silent" and now_s - begun_s >= self.reports_after_s
        return StageDevice(
            failure="self_test_failed" if has_reported and self.kind == "failing" else None,
            was_heard=has_reported,
            waits_since_s=begun_s,
            field=self.field if has_reported and self.kind == "fine" else None,
            reference=MANIFEST,
        )


@dataclass(frozen=True)
class Outcome:
    """How a rollout ended, in which stage, and the devices of that stage."""

    action: str
    percent: int
    members: list[Fate]


def _stage(policy: GatePolicy, members: list[Fate], begun_s: float) -> tuple[str, float]:
    now_s = begun_s
    while now_s - begun_s < 10 * policy.deadline_s:
        now_s += HOUR_S
        verdict = judged(policy, [fate.seen(begun_s, now_s) for fate in members], now_s)
        if verdict.action != "wait":
            return verdict.action, now_s
    return "wait", now_s


def _ends(devices: int, slowdown: float, runs: int) -> list[str]:
    """How the stages of ``runs`` rollouts that have one stage end."""
    fleet = SimulatedFleet(devices, slowdown=slowdown)
    one_stage = GatePolicy(stages_percent=(100,))
    return [fleet.rollout(one_stage, seed).action for seed in range(runs)]


def _print_rates(runs: int) -> None:
    print(f"{runs} stages in each row\n")
    print("| devices | release against its manifest | advances | stops | waits |\n|---|---|---|---|---|")
    for devices in (7, 20, 100):
        for slowdown in (1.0, 1.05, 1.1, 1.5):
            ends = _ends(devices, slowdown, runs)
            shares = " | ".join(f"{ends.count(end) / runs:.1%}" for end in ("finished", "stop", "wait"))
            print(f"| {devices} | {slowdown:g} times | {shares} |", flush=True)


if __name__ == "__main__":
    _print_rates(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
