"""A job as one HTML page that needs no other file and no network."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tunefarm.quantities import duration_text, latency_text, ratio_text
from tunefarm.report import plots
from tunefarm.report.job_report import JobReport, TaskReport

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LEAST_POINTS: Final = 2


@dataclass(frozen=True)
class Drawing:
    """A plot with its caption, or, where there is nothing to draw, the words in its place."""

    title: str
    about: str
    svg: str = ""


def render_page(report: JobReport) -> str:
    """The HTML text. Everything that comes from a user is escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters.update(latency=latency_text, duration=duration_text, moment=moment_text)
    environment.globals["ratio"] = ratio_text
    drawn = [{"task": task, "drawings": _drawings(report, task)} for task in report.tasks]
    return environment.get_template("page.html").render(report=report, drawn=drawn, seconds=_seconds(report))


def moment_text(at: str) -> str:
    """A moment in RFC 3339 as a person reads it, to the second."""
    return datetime.fromisoformat(at).strftime("%Y-%m-%d %H:%M:%S UTC")


def _drawings(report: JobReport, task: TaskReport) -> list[Drawing]:
    numpy_s = report.numpy_latency_s
    start = "the untuned program" if task.known_before_s is None else "the best that earlier runs had found"
    title, about = "Best latency over time", f"Lower is better. It starts at {start}."
    drawn = [_drawing(title, about, plots.latency_over_time(task, task.run_s, numpy_s, titled=False))]
    title, about = "Best latency over trials", "Trials that failed, or were stopped early as losers, have no dot."
    drawn.append(_drawing(title, about, plots.latency_over_trials(task, numpy_s, titled=False)))
    return [*drawn, _failures(task), _accuracy(task)]


def _failures(task: TaskReport) -> Drawing:
    title = "Failures by reason"
    if not task.failures:
        return Drawing(title, "No trial failed.")
    about = "Build timeouts are usual: what takes far longer to compile than the rest is almost never fast."
    return _drawing(title, about, plots.failures_by_reason(task.failures))


def _accuracy(task: TaskReport) -> Drawing:
    title = "Accuracy of the cost model"
    if len(task.accuracy) < LEAST_POINTS:
        return Drawing(title, "Too few trials were ranked by the model to tell.")
    about = "Of every two trials, how often the one that the model expected to be faster was."
    trials = max(task.summary.trials_in_store, max((number for number, _ in task.trials), default=1))
    return _drawing(title, about, plots.model_accuracy(task.accuracy, trials))


def _seconds(report: JobReport) -> Drawing:
    title = "Where the seconds went"
    if not any(name in report.seconds for name in plots.SECONDS_SPENT):
        return Drawing(title, "Nothing was measured.")
    about = (
        "Dark bars are time by the clock. Pale ones are summed over lanes that work side by side, beside the search."
    )
    return _drawing(title, about, plots.seconds_spent(report.seconds))


def _drawing(title: str, about: str, figure: "Figure") -> Drawing:
    return Drawing(title, about, plots.as_svg(figure, f"{title}. {about}"))
