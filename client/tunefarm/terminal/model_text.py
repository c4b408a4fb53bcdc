"""The waterfall of a tuned model: where its time is, before and after, as lines of text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tunefarm_schemas.views.quantities import counted, latency_text, ratio_text
from tunefarm_schemas.visible_text import visible_line

MAX_ROWS: Final = 24
"""Maximum number of tasks with a line each; ``--json`` contains all."""
NAME_CHARACTERS: Final = 40
REFERENCES: Final[Mapping[str, str]] = {
    "framework": "the framework's results",
    "unscheduled": "the unscheduled build",
}
HEADINGS: Final = (
    "function", "calls", "untuned", "untried", "tuned", "in a run", "share", "GFLOP/s", "trials", "winner",
)  # fmt: skip
BUCKET_HEADINGS: Final = ("one run of the bucket", "untried", "tuned", "faster", "untried, cold", "tuned, cold")
TIMES_HEADINGS: Final = ("one run of the model", "untried", "tuned", "faster")


@dataclass(frozen=True)
class WaterfallRow:
    """One task of a model. Latencies are of one call, in seconds; ``share`` is of the model's predicted time.

    ``winner`` is where the schedule comes from that ships; empty without a record.
    """

    name: str
    calls: float
    untuned_s: float | None
    untried_s: float | None
    tuned_s: float | None
    share: float | None
    trials: int
    has_record: bool
    floating_point_operations: int = 0
    winner: str = ""

    @property
    def gigaflops(self) -> float | None:
        """GFLOP/s of the tuned function; None if its latency or its number of operations is unknown."""
        return self.floating_point_operations / self.tuned_s / 1e9 if self.tuned_s else None

    @property
    def in_run_s(self) -> float | None:
        """Seconds in one run of the model."""
        return None if self.tuned_s is None else self.calls * self.tuned_s


def waterfall(summary: Mapping[str, Any]) -> list[WaterfallRow]:
    """The tasks of a model's job from its summary, those that take most of the model's time first."""
    tasks: Sequence[Mapping[str, Any]] = summary.get("tasks") or ()
    times_s = [_calls(task) * float(task.get("best_latency_s") or 0.0) for task in tasks]
    total_s = sum(times_s)
    rows = [_row(task, time_s / total_s if total_s else None) for task, time_s in zip(tasks, times_s, strict=True)]
    return sorted(rows, key=lambda row: -(row.in_run_s or 0.0))


def predicted_s(rows: Sequence[WaterfallRow], which: str = "tuned") -> float | None:
    """The sum of calls times latency (``untuned``, ``untried`` or ``tuned``); None if a function has no latency."""
    latencies_s = [getattr(row, f"{which}_s") for row in rows]
    if not rows or any(latency_s is None for latency_s in latencies_s):
        return None
    return float(sum(row.calls * latency_s for row, latency_s in zip(rows, latencies_s, strict=True)))


def model_text(summary: Mapping[str, Any]) -> str:
    """A table with a line for each function of a model, and the sums."""
    rows = waterfall(summary)
    return "\n".join([*_aligned(waterfall_cells(rows)), gain_line(rows)])


def waterfall_cells(rows: Sequence[WaterfallRow]) -> list[tuple[str, ...]]:
    """The cells of that table: headings, at most ``MAX_ROWS`` functions, the others, the sums."""
    shown, left_out = rows[:MAX_ROWS], rows[MAX_ROWS:]
    cells = [HEADINGS, *(_cells(row) for row in shown)]
    if left_out:
        rest_s = sum(row.in_run_s or 0.0 for row in left_out)
        name, share = counted(len(left_out), "other"), sum(row.share or 0.0 for row in left_out)
        cells.append((name, "", "", "", "", latency_text(rest_s), f"{share:.1%}", "", str(_trials(left_out)), ""))
    sums = [latency_text(predicted_s(rows, which)) for which in ("untuned", "untried", "tuned")]
    calls = f"{sum(row.calls for row in rows):g}"
    return [*cells, ("sum of calls", calls, *sums, sums[-1], "", "", str(_trials(rows)), "")]


def gain_line(rows: Sequence[WaterfallRow]) -> str:
    """The model's predicted time, and how much faster it is than without tuning."""
    untuned_s, untried_s, tuned_s = (predicted_s(rows, which) for which in ("untuned", "untried", "tuned"))
    gains = [
        f"{ratio_text(before_s, tuned_s)} faster than {what}"
        for before_s, what in ((untried_s, "without a trial"), (untuned_s, "untuned"))
        if before_s is not None and tuned_s is not None
    ]
    return ", ".join([f"predicted time of the model {latency_text(tuned_s)}", *gains])


def built_text(figures: Mapping[str, Any], rows: Sequence[WaterfallRow]) -> str:
    """The predicted and the measured times of a built model as a table, and which of its builds ships."""
    buckets = bucket_cells(figures)
    return "\n".join([*_aligned(times_cells(figures, rows)), *_aligned(buckets), shipped_line(figures)])


def bucket_cells(figures: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The cells of a table with the measured times of each bucket; none for a model without several."""
    buckets: Sequence[Mapping[str, Any]] = figures.get("buckets") or ()
    return [BUCKET_HEADINGS, *map(_bucket_cells, buckets)] if buckets else []


def _bucket_cells(bucket: Mapping[str, Any]) -> tuple[str, ...]:
    builds: list[Mapping[str, Any]] = [bucket.get(name) or {} for name in ("untried", "tuned")]
    untried_s, tuned_s = (build.get("latency_s") for build in builds)
    cold = [latency_text(build.get("cold_latency_s")) for build in builds]
    sizes = ", ".join(f"{name}={size}" for name, size in bucket["sizes"].items())
    return (sizes, latency_text(untried_s), latency_text(tuned_s), ratio_text(untried_s, tuned_s), *cold)


def times_cells(figures: Mapping[str, Any], rows: Sequence[WaterfallRow]) -> list[tuple[str, ...]]:
    """The cells of that table. Intervals are from the fastest to the slowest process."""
    untried_s, tuned_s = predicted_s(rows, "untried"), predicted_s(rows, "tuned")
    predicted = latency_text(untried_s), latency_text(tuned_s), ratio_text(untried_s, tuned_s)
    return [
        TIMES_HEADINGS,
        ("predicted, sum of calls", *predicted),
        ("measured, warm caches", *_measured_cells(figures, "")),
        ("measured, cold caches", *_measured_cells(figures, "cold_")),
    ]


def measured_s(figures: Mapping[str, Any]) -> dict[str, float]:
    """The measured times of one run of each build with warm caches, as functions are measured, by build."""
    times_s = {build: (figures.get(build) or {}).get("latency_s") for build in ("untried", "tuned")}
    return {build: time_s for build, time_s in times_s.items() if time_s is not None}


def shipped_line(figures: Mapping[str, Any]) -> str:
    """Which build ships, and what it was compared with."""
    if figures.get("tuned_s") is None:
        ships = "no function has a record: the build without a trial ships"
    elif figures.get("is_tuned"):
        ships = "the tuned build ships"
    else:
        ships = "the build without a trial is faster, and ships"
    equal = REFERENCES.get(str(figures.get("reference")))
    text = ships if equal is None else f"{ships}, within tolerance of {equal} on three inputs"
    race = figures.get("libraries")
    if race is None:
        return text
    return f"{text}; raced with libraries: {race['winner']} ships, {race['gain']:.2f} times as fast as our kernels"


def _measured_cells(figures: Mapping[str, Any], prefix: str) -> tuple[str, ...]:
    """The times of both builds with their intervals, and the gain."""
    builds: list[Mapping[str, Any]] = [figures.get(name) or {} for name in ("untried", "tuned")]
    untried_s, tuned_s = (build.get(f"{prefix}latency_s") for build in builds)
    intervals_s = [build.get(f"{prefix}interval_s") for build in builds]
    texts = map(_measured_text, (untried_s, tuned_s), intervals_s)
    return (*texts, ratio_text(untried_s, tuned_s))


def _measured_text(time_s: float | None, interval_s: Sequence[float] | None) -> str:
    if interval_s is None:
        return latency_text(time_s)
    low, high = (latency_text(edge_s, 3) for edge_s in interval_s)
    return f"{latency_text(time_s)} ({low} to {high})"


def _aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]) if cells else 0)]
    return [_line(line, widths) for line in cells]


def _row(task: Mapping[str, Any], share: float | None) -> WaterfallRow:
    return WaterfallRow(
        name=str(task.get("name")),
        calls=_calls(task),
        untuned_s=task.get("untuned_latency_s"),
        untried_s=task.get("untried_latency_s"),
        tuned_s=task.get("best_latency_s"),
        share=share,
        trials=int(task.get("trials") or 0),
        has_record=task.get("record_id") is not None,
        floating_point_operations=int(task.get("floating_point_operations") or 0),
        winner=str(task.get("winner") or ""),
    )


def _calls(task: Mapping[str, Any]) -> float:
    return float(task.get("weight") or 1.0)


def _trials(rows: Sequence[WaterfallRow]) -> int:
    return sum(row.trials for row in rows)


def _cells(row: WaterfallRow) -> tuple[str, ...]:
    return (
        visible_line(row.name)[:NAME_CHARACTERS],
        f"{row.calls:g}",
        latency_text(row.untuned_s),
        latency_text(row.untried_s),
        latency_text(row.tuned_s),
        latency_text(row.in_run_s),
        "-" if row.share is None else f"{row.share:.1%}",
        f"{row.gigaflops:.3g}" if row.gigaflops else "-",
        str(row.trials),
        row.winner or "-",
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """The first column is aligned left, the others right."""
    first, *rest = (cell.ljust(widths[0]) if n == 0 else cell.rjust(widths[n]) for n, cell in enumerate(cells))
    return "  ".join([first, *rest]).rstrip()
