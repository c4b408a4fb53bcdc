"""Plots of a job as SVG text or PNG bytes, drawn by matplotlib without a display."""

import io
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tunefarm.report.job_report import Step, TaskReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE_INCHES: Final = (7.0, 3.4)
BLUE, GREY, RED, GREEN = "#1f6feb", "#8b949e", "#cf222e", "#1a7f37"
RUN_SECONDS: Final = ("start", "search", "build", "wait", "run", "verify")


def prepare_matplotlib(cache: Path) -> None:
    """Give matplotlib a folder of ours for its font cache, unless the user chose one."""
    os.environ.setdefault("MPLCONFIGDIR", str(cache))


def latency_over_time(task: TaskReport, end_s: float, numpy_latency_s: float | None = None) -> "Figure":
    """Best latency so far, in microseconds, over seconds since the command began."""
    return _staircase(
        task, [(step.elapsed_s, step) for step in task.steps], max(end_s, 1e-3), "seconds since start", numpy_latency_s
    )


def latency_over_trials(task: TaskReport, numpy_latency_s: float | None = None) -> "Figure":
    """Best latency so far, in microseconds, over trials, with every timed trial as a dot."""
    end = max([number for number, _ in task.trials] + [step.trials for step in task.steps] + [1])
    figure = _staircase(task, [(step.trials, step) for step in task.steps], end, "trials", numpy_latency_s)
    axes = figure.axes[0]
    axes.plot([n for n, _ in task.trials], [s * 1e6 for _, s in task.trials], ".", color=GREY, alpha=0.5, zorder=1)
    return figure


def failures_by_reason(failures: Mapping[str, int]) -> "Figure":
    """A bar for each reason."""
    figure, axes = _figure()
    names = sorted(failures, key=lambda name: failures[name])
    axes.barh(names, [failures[name] for name in names], color=RED)
    axes.set_xlabel("trials")
    return figure


def model_accuracy(accuracy: Sequence[tuple[int, float]]) -> "Figure":
    """Share of pairs that the cost model ordered right before it saw them, over trials."""
    figure, axes = _figure()
    axes.plot([n for n, _ in accuracy], [share for _, share in accuracy], color=GREEN, marker=".")
    axes.axhline(0.5, color=GREY, linestyle=":")
    axes.set_ylim(0, 1)
    axes.set_xlabel("trials")
    axes.set_ylabel("pairs ordered right")
    return figure


def seconds_spent(seconds: Mapping[str, float]) -> "Figure":
    """A bar for each stage; build, wait and run are summed over lanes that work side by side."""
    figure, axes = _figure()
    names = [name for name in RUN_SECONDS if name in seconds][::-1]
    axes.barh(names, [seconds[name] for name in names], color=BLUE)
    axes.set_xlabel("seconds")
    return figure


def as_svg(figure: "Figure") -> str:
    """The SVG element alone, fit to stand inside a page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return re.sub(r"^.*?(?=<svg)", "", buffer.getvalue(), flags=re.DOTALL)


def as_png(figure: "Figure") -> bytes:
    """A PNG image."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def _staircase(
    task: TaskReport, points: list[tuple[float, Step]], end: float, label: str, numpy_latency_s: float | None
) -> "Figure":
    figure, axes = _figure()
    if points:
        # Before the first kernel there was the untuned one.
        before = [] if task.summary.untuned_latency_s is None else [(0.0, task.summary.untuned_latency_s)]
        held = [*before, *((x, step.latency_s) for x, step in points)]
        at = [x for x, _ in held] + [max(end, held[-1][0])]
        best_us = [latency_s * 1e6 for _, latency_s in held]
        axes.step(at, [*best_us, best_us[-1]], where="post", color=BLUE, label="best so far", zorder=2)
    _level(axes, task.summary.untuned_latency_s, GREY, "untuned")
    _level(axes, numpy_latency_s, GREEN, "numpy")
    axes.set_yscale("log")
    axes.set_xlim(left=0)
    axes.set_xlabel(label)
    axes.set_ylabel("latency in us")
    axes.set_title(task.name.replace("$", r"\$"))
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    return figure


def _level(axes: "Axes", latency_s: float | None, color: str, label: str) -> None:
    if latency_s is not None:
        axes.axhline(latency_s * 1e6, color=color, linestyle="--", label=label)


def _figure() -> tuple["Figure", "Axes"]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.grid(alpha=0.3)
    return figure, axes
