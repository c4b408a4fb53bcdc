"""Plots of a job as SVG or PNG, drawn by matplotlib without a display."""

import io
import os
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tunefarm.report.job_report import TaskReport
from tunefarm_schemas.views.jobs.summary import ModelAccuracy
from tunefarm_schemas.views.quantities import latency_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_INCHES: Final = 7.6
NARROW_INCHES: Final = 4.2
"""For phones: narrow enough that the text stays readable."""
HEIGHT_INCHES: Final = 3.4
BAR_INCHES: Final = 0.34
AXIS_INCHES: Final = 0.62
LEGEND_INCHES: Final = 2.2
INK, BLUE, GREY, RED, GREEN = "#1f2328", "#0b5cad", "#57606a", "#b42318", "#116329"
PALE_BLUE: Final = "#6ea8d9"
THEME: Final = {
    INK: "var(--ink)", "#000000": "var(--ink)", BLUE: "var(--series)", GREY: "var(--quiet)", RED: "var(--bad)",
    GREEN: "var(--good)", PALE_BLUE: "var(--level)", "#b0b0b0": "var(--line)",
}  # fmt: skip
"""Colours of the page's style sheet, by those of plots; the last is that of grids."""
SECONDS_SPENT: Final = {
    "start": "starting",
    "search": "searching",
    "build": "building",
    "wait": "waiting for the device",
    "run": "running",
    "verify": "verifying",
}
WALL: Final = frozenset({"start", "search", "verify"})
NICE_STEPS: Final = (1.0, 2.0, 5.0)


def prepare_matplotlib(cache: Path) -> None:
    """Set matplotlib's cache folder, unless the user has set it."""
    os.environ.setdefault("MPLCONFIGDIR", str(cache))


def latency_over_time(
    task: TaskReport,
    end_s: float,
    numpy_latency_s: float | None = None,
    *,
    titled: bool = True,
    width_inches: float = WIDTH_INCHES,
) -> "Figure":
    """Best latency over seconds since the start of the run of ``task.steps``, to ``end_s`` or its last step."""
    end = max(end_s, *(step.elapsed_s for step in task.steps), 1e-3)
    points = [(step.elapsed_s, step.latency_s) for step in task.steps]
    before_s = task.summary.untuned_latency_s if task.known_before_s is None else task.known_before_s
    figure, axes = _staircase(task, points, before_s, end, numpy_latency_s, width_inches)
    axes.set_xlabel("seconds since the start")
    return _finished(figure, axes, task, titled=titled)


def latency_over_trials(
    task: TaskReport,
    numpy_latency_s: float | None = None,
    *,
    titled: bool = True,
    width_inches: float = WIDTH_INCHES,
) -> "Figure":
    """Best latency over all trials of the exploration, with each timed trial as a dot."""
    end = max([task.summary.trials_in_store, *(number for number, _ in task.trials), 1])
    points = [(float(number), latency_s) for number, latency_s in task.best_over_trials]
    figure, axes = _staircase(task, points, task.summary.untuned_latency_s, end, numpy_latency_s, width_inches)
    if task.trials:
        numbers, latencies = [n for n, _ in task.trials], [latency_s for _, latency_s in task.trials]
        axes.plot(numbers, latencies, "o", color=PALE_BLUE, markersize=3.5, zorder=1, label="each timed trial")
    _whole_numbers(axes.xaxis)
    axes.set_xlabel("trials")
    return _finished(figure, axes, task, titled=titled)


def failures_by_reason(failures: Mapping[str, int], *, width_inches: float = WIDTH_INCHES) -> "Figure":
    """One bar per reason, the most frequent on top."""
    names = sorted(failures, key=lambda name: (failures[name], name))
    figure, axes = _bars(
        [name.replace("_", " ") for name in names],
        [float(failures[name]) for name in names],
        [RED] * len(names),
        "{:g}",
        width_inches,
    )
    _whole_numbers(axes.xaxis)
    axes.set_xlabel("trials")
    return figure


def model_accuracy(accuracy: Sequence[ModelAccuracy], trials: int, *, width_inches: float = WIDTH_INCHES) -> "Figure":
    """The share of pairs that the cost model ordered correctly before they were measured, over ``trials`` trials."""
    figure, axes = _figure(HEIGHT_INCHES, width_inches)
    numbers = [each.known for each in accuracy]
    axes.plot(numbers, [each.share for each in accuracy], color=GREEN, marker="o", markersize=4)
    axes.axhline(0.5, color=GREY, linestyle="--")
    axes.annotate("chance", (0, 0.5), xytext=(4, 4), textcoords="offset points", color=GREY)
    axes.set_xlim(0, max([trials, *numbers]) * 1.02)
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    _whole_numbers(axes.xaxis)
    axes.set_xlabel("trials")
    axes.set_ylabel("pairs ordered correctly")
    return figure


def seconds_spent(seconds: Mapping[str, float], *, width_inches: float = WIDTH_INCHES) -> "Figure":
    """One bar per stage; wall time and sums over lanes in different colours."""
    names = [name for name in SECONDS_SPENT if name in seconds][::-1]
    colours = [BLUE if name in WALL else PALE_BLUE for name in names]
    figure, axes = _bars(
        [SECONDS_SPENT[name] for name in names], [seconds[name] for name in names], colours, "{:.3g} s", width_inches
    )
    axes.set_xlabel("seconds")
    return figure


def as_svg(figure: "Figure", label: str = "", *, is_themed: bool = False) -> str:
    """The SVG element, for embedding in a page; ``label`` describes it for screen readers.

    ``is_themed`` replaces its colours by those of the page's style sheet, and leaves its background out.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=is_themed)
    svg = re.sub(r"^.*?(?=<svg)", "", buffer.getvalue(), flags=re.DOTALL)
    if is_themed:
        svg = re.sub("|".join(THEME), lambda found: THEME[found[0]], svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1) if label else svg


def as_png(figure: "Figure") -> bytes:
    """A PNG image."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def _staircase(
    task: TaskReport,
    points: Sequence[tuple[float, float]],
    before_s: float | None,
    end: float,
    numpy_latency_s: float | None,
    width_inches: float,
) -> tuple["Figure", "Axes"]:
    """Draw the latency of each point until the next, and ``before_s`` until the first.

    The measured and the verified latency have their own marks: one is from a single process and the other from several
    fresh ones, so the verified latency is not a step of the line.
    """
    figure, axes = _figure(HEIGHT_INCHES, width_inches)
    if points:
        before = [] if before_s is None else [(0.0, before_s)]
        held = [*before, *points]
        best = [latency_s for _, latency_s in held]
        at = [x for x, _ in held] + [max(end, held[-1][0])]
        axes.step(at, [*best, best[-1]], where="post", color=BLUE, linewidth=2, label="best so far", zorder=3)
        _mark(axes, points[-1], "o", BLUE, "measured")
        if task.verified_s is not None:
            _mark(axes, (at[-1], task.verified_s), "D", INK, "verified")
    label = "untuned, estimated" if task.summary.untuned_is_estimate else "untuned"
    _level(axes, task.summary.untuned_latency_s, GREY, label)
    _level(axes, numpy_latency_s, GREEN, "numpy")
    axes.set_xlim(0, end * 1.02)
    return figure, axes


def _mark(axes: "Axes", at: tuple[float, float], marker: str, color: str, label: str) -> None:
    """Draw a mark on top, not clipped at the edge."""
    text = f"{label}: {latency_text(at[1])}"
    axes.plot(*at, marker, color=color, markersize=7, zorder=5, clip_on=False, label=text)


def _finished(figure: "Figure", axes: "Axes", task: TaskReport, *, titled: bool) -> "Figure":
    _latency_axis(axes)
    if titled:
        axes.set_title(_shown(task.name), loc="left")
    if axes.get_legend_handles_labels()[0]:
        columns = max(1, round(figure.get_figwidth() / LEGEND_INCHES))
        figure.legend(
            loc="outside upper right", ncols=columns, frameon=False
        )  # next to the plot, so that it hides nothing
    else:
        axes.annotate("no kernel was timed", (0.5, 0.5), xycoords="axes fraction", ha="center", color=GREY)
    return figure


def _latency_axis(axes: "Axes") -> None:
    """Make the axis logarithmic, with units in its ticks, such as 200 us and 1 ms."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    steps: tuple[float, ...] = NICE_STEPS if high / low < 1e3 else (1.0,)
    if high / low < 4:
        steps = tuple(float(step) for step in range(1, 10))
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=steps, numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda latency_s, _: latency_text(latency_s, 2)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("latency (logarithmic)")


def _level(axes: "Axes", latency_s: float | None, color: str, label: str) -> None:
    if latency_s is not None:
        axes.axhline(latency_s, color=color, linestyle="--", linewidth=1.5, label=f"{label}: {latency_text(latency_s)}")


def _bars(
    names: list[str], values: list[float], colors: list[str], form: str, width_inches: float
) -> tuple["Figure", "Axes"]:
    """Draw bars of constant thickness, each with its value at its end."""
    figure, axes = _figure(AXIS_INCHES + BAR_INCHES * max(len(names), 1), width_inches)
    drawn = axes.barh(names, values, color=colors, height=0.7)
    axes.bar_label(drawn, [form.format(value) for value in values], padding=4, color=INK)
    axes.set_xlim(0, max([*values, 1e-9]) * (1.0 + 1.2 / width_inches))
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.grid(visible=False, axis="y")
    return figure, axes


def _whole_numbers(axis: object) -> None:
    from matplotlib.axis import Axis
    from matplotlib.ticker import MaxNLocator

    assert isinstance(axis, Axis), "an axis of a plot"
    axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _shown(name: str) -> str:
    short = name if len(name) <= 60 else f"{name[:57]}..."
    return short.replace("$", r"\$")


def _figure(height_inches: float, width_inches: float) -> tuple["Figure", "Axes"]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_inches, height_inches), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes
