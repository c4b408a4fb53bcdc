"""Table and plot of the scaling run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.farm.farm_scaling_point import ScalingPoint
from benchmarks.report.drawing import load_pyplot

GOAL: Final = 0.95
_HEAD: Final = (
    "devices", "candidates/s", "efficiency", "CPU ms each: tuner", "store calls", "workers",
    "Redis", "PostgreSQL", "all",
    "processors busy", "idle", "tuner's threads", "longest queue / replies / heartbeats", "dispatched",
    "lost or doubled", "sent twice", "lanes taken for silent",
)  # fmt: skip


def markdown(points: Sequence[ScalingPoint]) -> str:
    """One row for each number of devices."""
    rows = [_HEAD, ("---",) * len(_HEAD), *(_row(point) for point in points)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)


def _row(point: ScalingPoint) -> tuple[str, ...]:
    slow = "" if point.stretch == 1.0 else f", {point.stretch:g}x slower"
    return (
        f"{point.devices:,}{slow}",
        f"{point.candidates_per_s:.1f}",
        f"{point.efficiency:.1%}",
        f"{point.tuner_cpu_ms:.2f}",
        f"{point.store_cpu_ms:.2f}",
        f"{point.worker_cpu_ms:.2f}",
        f"{point.redis_cpu_ms:.2f}",
        f"{point.database_cpu_ms:.2f}",
        f"{point.cpu_ms:.2f}",
        f"{point.processor_share:.0%}",
        f"{point.idle_share:.0%}",
        f"{point.tuner_share:.0%}",
        f"{point.longest_queue} / {point.longest_replies} / {point.longest_heartbeats}",
        f"{point.dispatched:,}",
        f"{point.lost + abs(point.doubled)}",
        f"{point.second_attempts}",
        f"{point.lanes_lost}",
    )


def plot(points: Sequence[ScalingPoint], path: Path) -> None:
    """Plot the throughput against the ideal, and the share of time in which devices were busy."""
    pyplot = load_pyplot()
    shown = [point for point in points if point.stretch == 1.0]
    devices = [point.devices for point in shown]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
    left.plot(devices, [point.ideal_per_s for point in shown], "--", color="#888888", label="ideal")
    left.plot(devices, [point.candidates_per_s for point in shown], "o-", color="#1f6f8b", label="measured")
    left.set(xscale="log", yscale="log", xlabel="devices", ylabel="candidates/s")
    left.legend()
    right.axhline(GOAL, color="#888888", linestyle="--", linewidth=1)
    right.plot(devices, [point.efficiency for point in shown], "o-", color="#1f6f8b", label="devices busy")
    right.plot(devices, [point.processor_share for point in shown], "s-", color="#b0522d", label="processors busy")
    right.plot(devices, [point.tuner_share for point in shown], "^-", color="#6b6b2d", label="tuner's share of one")
    right.set(xscale="log", xlabel="devices", ylim=(0, 1.05))
    right.legend()
    figure.savefig(path)
    pyplot.close(figure)
