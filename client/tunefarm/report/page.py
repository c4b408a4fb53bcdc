"""Renders a job as a self-contained HTML page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tunefarm.report import plots
from tunefarm.report.job_report import JobReport, TaskReport
from tunefarm.terminal.job_text import named_times, time_text, trials_text
from tunefarm.terminal.model_text import (
    WaterfallRow,
    bucket_cells,
    gain_line,
    measured_s,
    predicted_s,
    shipped_line,
    times_cells,
    waterfall,
    waterfall_cells,
)
from tunefarm_schemas.views.quantities import counted, duration_text, latency_text, ratio_text
from tunefarm_schemas.views.summary import ModelAccuracy
from tunefarm_services.tuner.search.model_accuracy import accuracy_in_all, is_better_than_chance

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MIN_POINTS: Final = 2
MARKS: Final = (
    "The line and the circle were measured during the search, in one process each. The diamond is the verified latency "
    "of the final library, in several fresh processes. It may be higher."
)


@dataclass(frozen=True)
class Drawing:
    """A plot with its caption for wide and narrow screens, or only text if there is nothing to draw."""

    title: str
    about: str
    wide: str = ""
    narrow: str = ""


@dataclass(frozen=True)
class ModelPart:
    """What a page shows of a whole model: a plot, and tables whose first row has the headings."""

    drawing: Drawing
    functions: Sequence[Sequence[str]]
    times: Sequence[Sequence[str]]
    buckets: Sequence[Sequence[str]]
    ships: str


def render_page(report: JobReport) -> str:
    """Render the HTML. All text from users is escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters.update(latency=latency_text, duration=duration_text, moment=moment_text)
    environment.filters.update(gigaflops=gigaflops_text)
    environment.globals["trials"] = lambda summary: trials_text(summary.model_dump(mode="json"))
    environment.globals["times"] = lambda summary: [
        (name, time_text(time)) for name, time in named_times(summary.model_dump(mode="json"))
    ]
    environment.globals["ratio"] = ratio_text
    drawn = [{"task": task, "drawings": _drawings(report, task)} for task in report.tasks]
    model = _model_part(report) if report.of_model else None
    page = environment.get_template("page.html")
    return page.render(report=report, drawn=drawn, seconds=_seconds(report), model=model, title=_title(report))


def _title(report: JobReport) -> str:
    if report.of_model:
        name = Path(report.job.spec.labels.get("module", "")).name
        functions = f"a model of {counted(len(report.tasks), 'function')}"
        return f"{name}, {functions}" if name else functions
    more = f" and {len(report.tasks) - 1} more" if len(report.tasks) > 1 else ""
    return f"{report.tasks[0].name}{more}"


def moment_text(at: str) -> str:
    """Format an RFC 3339 time for people, to the second."""
    return datetime.fromisoformat(at).strftime("%Y-%m-%d %H:%M:%S UTC")


def gigaflops_text(gigaflops: float | None) -> str:
    """Format GFLOP/s; a dash for None."""
    return "-" if gigaflops is None else f"{gigaflops:.4g} GFLOP/s"


def _drawings(report: JobReport, task: TaskReport) -> list[Drawing]:
    numpy_s = report.numpy_latency_s
    start = "the untuned program" if task.known_before_s is None else "the best schedule of earlier runs"
    title = "Best latency over time"
    about = f"Lower is better. It starts at {start}. {MARKS}"
    over_time = partial(plots.latency_over_time, task, task.run_s, numpy_s, titled=False)
    drawn = [_drawing(title, about, over_time)]
    title, about = "Best latency over trials", "Failed trials, and slow ones that were stopped early, have no dot."
    drawn.append(_drawing(title, about, partial(plots.latency_over_trials, task, numpy_s, titled=False)))
    return [*drawn, _failures(task), _accuracy(task)]


def _model_part(report: JobReport) -> ModelPart:
    rows = waterfall({"tasks": [task.summary.model_dump(mode="json") for task in report.tasks]})
    built = report.built
    return ModelPart(
        drawing=_waterfall(rows, measured_s({} if built is None else built)),
        functions=waterfall_cells(rows),
        times=[] if built is None else times_cells(built, rows),
        buckets=[] if built is None else bucket_cells(built),
        ships="The model was not built." if built is None else f"{shipped_line(built).capitalize()}.",
    )


def _waterfall(rows: Sequence[WaterfallRow], built_s: Mapping[str, float]) -> Drawing:
    title = "The model's time"
    if predicted_s(rows) is None:
        return Drawing(title, "Some functions have no latency yet.")
    about = f"What each function saves in one run. {gain_line(rows).capitalize()}."
    return _drawing(title, about, partial(plots.model_waterfall, rows, built_s))


def _failures(task: TaskReport) -> Drawing:
    title = "Failures by reason"
    if not task.failures:
        return Drawing(title, "No trial failed.")
    about = "Build timeouts are normal: a candidate that takes far longer to compile than others is almost never fast."
    return _drawing(title, about, partial(plots.failures_by_reason, task.failures))


def _accuracy(task: TaskReport) -> Drawing:
    title = "Accuracy of the cost model"
    whole = accuracy_in_all(task.accuracy)
    if whole is None or len(task.accuracy) < MIN_POINTS:
        return Drawing(title, "Too few trials were ranked by the cost model.")
    trials = max(task.summary.trials_in_store, max((number for number, _ in task.trials), default=1))
    return _drawing(title, accuracy_text(whole), partial(plots.model_accuracy, task.accuracy, trials))


def accuracy_text(whole: ModelAccuracy) -> str:
    """The accuracy of the cost model over all trials, compared with chance."""
    verdict = "chance is 50%" if is_better_than_chance(whole) else "no better than chance so far, which is 50%"
    return (
        "For pairs of a new and an earlier trial: how often the model predicted, before measuring, which is faster. "
        f"{whole.share:.0%} of {whole.pairs} pairs, ties left out; {verdict}."
    )


def _seconds(report: JobReport) -> Drawing:
    title = "Time per stage"
    if not any(name in report.seconds for name in plots.SECONDS_SPENT):
        return Drawing(title, "Nothing was measured.")
    about = "Dark bars are wall time. Pale bars are summed over lanes that work in parallel with the search."
    return _drawing(title, about, partial(plots.seconds_spent, report.seconds))


def _drawing(title: str, about: str, draw: "Callable[..., Figure]") -> Drawing:
    label = f"{title}. {about}"
    wide, narrow = (
        plots.as_svg(draw(width_inches=width), label) for width in (plots.WIDTH_INCHES, plots.NARROW_INCHES)
    )
    return Drawing(title, about, wide, narrow)
