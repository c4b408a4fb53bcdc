"""Plots of the comparison."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.comparison.figures import Figures
from benchmarks.comparison.pairing import Pairing, incumbents_retimed
from benchmarks.report.drawing import load_pyplot

STOCK_COLOUR, OUR_COLOUR = "#b0522d", "#1f6f8b"


def plot_latency_over_time(pairings: Sequence[Pairing], path: Path) -> None:
    """Best latency over wall time, one plot per workload; timed again where the schedule is known."""
    names = list(dict.fromkeys(pairing.workload for pairing in pairings))
    columns = min(4, len(names))
    rows = math.ceil(len(names) / columns)
    pyplot = load_pyplot()
    figure, grid = pyplot.subplots(rows, columns, figsize=(4 * columns, 3 * rows), squeeze=False, layout="constrained")
    for axis in grid.flat[len(names) :]:
        axis.set_visible(False)
    for name, axis in zip(names, grid.flat, strict=False):
        for pairing in pairings:
            if pairing.workload == name:
                _draw_pairing(axis, pairing)
        axis.set(title=name, xscale="log", yscale="log", xlabel="wall time [s]", ylabel="best latency [us]")
    handles = [pyplot.Line2D([], [], color=colour, label=label) for colour, label in _LEGEND]
    figure.legend(handles=handles, loc="outside upper right", ncols=2)
    _save(figure, path)


_LEGEND = ((STOCK_COLOUR, "TVM's own tuner"), (OUR_COLOUR, "tunefarm"))


def _draw_pairing(axis: Any, pairing: Pairing) -> None:
    ours = incumbents_retimed(pairing.ours, pairing.retimed)
    best_us = math.inf
    times_s, latencies_us = [], []
    for point, timed in ours:
        best_us = min(best_us, timed.latency_s * 1e6)
        times_s.append(point.elapsed_s)
        latencies_us.append(best_us)
    axis.step([*times_s, pairing.ours.wall_s], [*latencies_us, best_us], where="post", color=OUR_COLOUR, alpha=0.8)
    stock_times_s = [point.elapsed_s for point in pairing.stock.points]
    stock_us = [max(point.latency_s, pairing.stock_latency_s) * 1e6 for point in pairing.stock.points]
    final_us = pairing.stock_latency_s * 1e6
    axis.step(
        [*stock_times_s, pairing.stock.wall_s], [*stock_us, final_us], where="post", color=STOCK_COLOUR, alpha=0.8
    )
    axis.plot(pairing.stock.wall_s, final_us, "o", color=STOCK_COLOUR, markersize=4)


def plot_ratios(result: Figures, path: Path) -> None:
    """Two bar charts with intervals: time to stock's result, and kernels at equal trials."""
    pyplot = load_pyplot()
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
    names = [*(row.workload for row in result.workloads), "mean"]
    times = [*(row.time_ratio for row in result.workloads), result.time_ratio]
    qualities = [*(row.quality_ratio for row in result.workloads), result.quality_ratio]
    for axis, title, ratios in (
        (axes[0], "time to stock's result, times less", times),
        (axes[1], "kernel at equal trials, times faster", qualities),
    ):
        means = [ratio.mean for ratio in ratios]
        below = [max(0.0, ratio.mean - ratio.low) for ratio in ratios]
        above = [max(0.0, ratio.high - ratio.mean) for ratio in ratios]
        axis.bar(names, means, yerr=[below, above], color=[OUR_COLOUR] * (len(names) - 1) + ["#444444"], capsize=3)
        axis.axhline(1.0, color=STOCK_COLOUR, linewidth=1)
        axis.set_title(title)
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    """Write an SVG and a PNG of the same name."""
    figure.savefig(path.with_suffix(".svg"))
    figure.savefig(path.with_suffix(".png"), dpi=120)
    load_pyplot().close(figure)
