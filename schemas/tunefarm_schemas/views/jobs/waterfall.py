"""The waterfall of a model: where its time is, before and after tuning, from the JSON of a job's summary and its build.

Summaries and figures may be of other versions, so each value may be missing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final, Literal

from tunefarm_schemas.views.quantities import counted, latency_text, ratio_text

Which = Literal["untuned", "untried", "tuned", "roofline"]
REFERENCES: Final[Mapping[str, str]] = {
    "framework": "the framework's results",
    "unscheduled": "the unscheduled build",
}
_BUILDS: Final[Mapping[str, str]] = {"untuned": "untuned", "untried": "without a trial"}
OUR_KERNELS: Final = "our kernels"
VISIBLE_SHARE: Final = 0.005
"""Functions that save less of the model's time have one bar together."""
MAX_STEPS: Final = 16
"""Functions of a model with a bar each in its waterfall."""
BUCKET_HEADINGS: Final = ("one run of the bucket", "untried", "tuned", "faster", "untried, cold", "tuned, cold")
TIMES_HEADINGS: Final = ("one run of the model", "untried", "tuned", "faster")


@dataclass(frozen=True)
class WaterfallRow:
    """One task of a model. Latencies are of one call, in seconds; ``share`` is of the model's predicted time.

    ``library`` ran the function fastest of all libraries that were timed, and took ``library_s``. ``winner`` is where
    the schedule comes from that ships, or the library that runs the function; empty without a record.
    """

    name: str
    calls: float
    untuned_s: float | None
    untried_s: float | None
    tuned_s: float | None
    share: float | None
    trials: int
    record_id: str | None = None
    floating_point_operations: int = 0
    winner: str = ""
    roofline_s: float | None = None
    bound: str = ""
    library_s: float | None = None
    library: str = ""

    @property
    def gigaflops(self) -> float | None:
        """GFLOP/s of the tuned function; None if its latency or its number of operations is unknown."""
        return self.floating_point_operations / self.tuned_s / 1e9 if self.tuned_s else None

    @property
    def in_run_s(self) -> float | None:
        """Seconds in one run of the model."""
        return None if self.tuned_s is None else self.calls * self.tuned_s

    @property
    def shipped_s(self) -> float | None:
        """Of a call of what ships. Without a record, that takes as long as without a trial, or at most as untuned."""
        return next((each for each in (self.tuned_s, self.untried_s, self.untuned_s) if each is not None), None)

    @property
    def of_roofline(self) -> float | None:
        """The share of the roofline that the tuned function reaches; None if one of both is unknown."""
        return self.roofline_s / self.tuned_s if self.roofline_s is not None and self.tuned_s else None


@dataclass(frozen=True)
class WaterfallBar:
    """A bar of a drawn waterfall, from ``begin_s`` to ``end_s`` seconds in one run of the model."""

    name: str
    kind: Literal["before", "saved", "lost", "after", "measured", "roofline"]
    begin_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end_s - self.begin_s


def waterfall(summary: Mapping[str, Any], built: Mapping[str, Any] | None = None) -> list[WaterfallRow]:
    """The tasks of a model's job from its summary, those that take most of the model's time first.

    ``built`` are the figures of the model's build, which has the times of libraries.
    """
    tasks: Sequence[Mapping[str, Any]] = summary.get("tasks") or ()
    times_s = [_calls(task) * float(task.get("best_latency_s") or 0.0) for task in tasks]
    total_s = sum(times_s)
    units: Sequence[Mapping[str, Any]] = ((built or {}).get("libraries") or {}).get("units") or ()
    rows = [
        _row(task, time_s / total_s if total_s else None, units) for task, time_s in zip(tasks, times_s, strict=True)
    ]
    return sorted(rows, key=lambda row: -(row.in_run_s or 0.0))


def predicted_s(rows: Sequence[WaterfallRow], which: Which = "tuned") -> float | None:
    """The sum of calls times latency; None if a function has no such latency.

    Where some functions are tuned, what ships of the others stands for them.
    """
    is_tuned = which == "tuned" and any(row.tuned_s is not None for row in rows)
    name = "shipped_s" if is_tuned else f"{which}_s"
    latencies_s = [getattr(row, name) for row in rows]
    if not rows or any(latency_s is None for latency_s in latencies_s):
        return None
    return float(sum(row.calls * latency_s for row, latency_s in zip(rows, latencies_s, strict=True)))


def gain_line(rows: Sequence[WaterfallRow]) -> str:
    """The model's predicted time, and how much faster it is than without tuning.

    It is slower only if the device was: what ships of a function was timed at another moment than without a trial.
    """
    untuned_s, untried_s, tuned_s = (predicted_s(rows, which) for which in ("untuned", "untried", "tuned"))
    gains = [
        f"{ratio_text(before_s, tuned_s)} faster than {what}"
        if before_s >= tuned_s
        else f"{ratio_text(tuned_s, before_s)} slower than {what}"
        for before_s, what in ((untried_s, "without a trial"), (untuned_s, "untuned"))
        if before_s is not None and tuned_s is not None
    ]
    return ", ".join([f"predicted time of the model {latency_text(tuned_s)}", *gains])


def waterfall_bars(rows: Sequence[WaterfallRow], measured: Mapping[str, float]) -> list[WaterfallBar]:
    """From the model's time before tuning to its time after: what each function saves in a run.

    Starts from the schedules without a trial, or from the untuned functions if some of those have no latency.
    ``measured`` are times of the whole model by name. Empty without the predicted times.
    """
    before: Which = "untried" if predicted_s(rows, "untried") is not None else "untuned"
    start_s, end_s = predicted_s(rows, before), predicted_s(rows)
    if start_s is None or end_s is None:
        return []
    saved = [(row.name, row.calls * ((getattr(row, f"{before}_s") or 0.0) - (row.shipped_s or 0.0))) for row in rows]
    visible = [each for each in saved if abs(each[1]) >= VISIBLE_SHARE * start_s]
    largest = sorted(visible, key=lambda each: -abs(each[1]))[:MAX_STEPS]
    rest_s = sum(saved_s for _, saved_s in saved) - sum(saved_s for _, saved_s in largest)
    others = [(counted(len(saved) - len(largest), "other"), rest_s)] if len(saved) > len(largest) else []
    bars = [WaterfallBar(f"predicted, {_BUILDS[before]}", "before", 0.0, start_s)]
    at_s = start_s
    for name, saved_s in [*largest, *others]:
        at_s -= saved_s
        kind: Literal["saved", "lost"] = "saved" if saved_s >= 0 else "lost"
        bars.append(WaterfallBar(name, kind, min(at_s, at_s + saved_s), max(at_s, at_s + saved_s)))
    bars.append(WaterfallBar("predicted, tuned", "after", 0.0, end_s))
    roofline_s = predicted_s(rows, "roofline")
    if roofline_s is not None:
        bars.append(WaterfallBar("roofline", "roofline", 0.0, roofline_s))
    return bars + [
        WaterfallBar(f"measured, {_BUILDS.get(name, name)}", "measured", 0.0, time_s)
        for name, time_s in measured.items()
    ]


def bucket_cells(figures: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The cells of a table with the measured times of each bucket; none for a model without several."""
    buckets: Sequence[Mapping[str, Any]] = figures.get("buckets") or ()
    return [BUCKET_HEADINGS, *map(_bucket_cells, buckets)] if buckets else []


def times_cells(figures: Mapping[str, Any], rows: Sequence[WaterfallRow]) -> list[tuple[str, ...]]:
    """The cells of a table with predicted and measured times. Intervals are from the fastest to the slowest process."""
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


def _bucket_cells(bucket: Mapping[str, Any]) -> tuple[str, ...]:
    builds: list[Mapping[str, Any]] = [bucket.get(name) or {} for name in ("untried", "tuned")]
    untried_s, tuned_s = (build.get("latency_s") for build in builds)
    cold = [latency_text(build.get("cold_latency_s")) for build in builds]
    sizes = ", ".join(f"{name}={size}" for name, size in bucket["sizes"].items())
    return (sizes, latency_text(untried_s), latency_text(tuned_s), ratio_text(untried_s, tuned_s), *cold)


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


def _row(task: Mapping[str, Any], share: float | None, units: Sequence[Mapping[str, Any]]) -> WaterfallRow:
    name = str(task.get("name"))
    own_units = [unit for unit in units if list(unit.get("functions") or ()) == [name]]
    library, library_s = _fastest_library(own_units)
    runners = {str(unit.get("runner")) for unit in own_units} - {OUR_KERNELS}
    roofline: Mapping[str, Any] = task.get("roofline") or {}
    return WaterfallRow(
        name=name,
        calls=_calls(task),
        untuned_s=task.get("untuned_latency_s"),
        untried_s=task.get("untried_latency_s"),
        tuned_s=task.get("best_latency_s"),
        share=share,
        trials=int(task.get("trials") or 0),
        record_id=task.get("record_id"),
        floating_point_operations=int(task.get("floating_point_operations") or 0),
        winner=", ".join(sorted(runners)) or str(task.get("winner") or ""),
        roofline_s=roofline.get("latency_s"),
        bound=str(roofline.get("bound") or ""),
        library_s=library_s,
        library=library,
    )


def _fastest_library(units: Sequence[Mapping[str, Any]]) -> tuple[str, float | None]:
    """The library with the lowest mean time over the calls of a function, and that time."""
    times: list[Mapping[str, float]] = [unit.get("times_s") or {} for unit in units]
    names = set(times[0]).intersection(*times[1:]) - {OUR_KERNELS} if times else set()
    means = {name: fmean(each[name] for each in times) for name in sorted(names)}
    fastest = min(means, key=lambda name: means[name], default="")
    return fastest, means.get(fastest)


def _calls(task: Mapping[str, Any]) -> float:
    return float(task.get("weight") or 1.0)
