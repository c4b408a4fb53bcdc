"""Renders a job as a page in one file, of the parts of the service's pages."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tunefarm.report import plots
from tunefarm.report.job_report import JobReport, TaskReport
from tunefarm.terminal.job_text import named_times, roofline_text, time_text, trials_text
from tunefarm_schemas.views.jobs.summary import JobSummary, ModelAccuracy
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


def render_page(report: JobReport) -> str:
    """Render the HTML, which loads nothing. All text from users is escaped."""
    # Starlette and Jinja take a while to load, and most commands write no page.
    from tunefarm_services.dashboard.assets import asset_text
    from tunefarm_services.dashboard.job.job_state import JobPageState
    from tunefarm_services.dashboard.job.model_view import model_name, model_view
    from tunefarm_services.dashboard.rendering import fragment

    summary = JobSummary(
        job_id=report.job.job_id,
        outcome=report.job.outcome,
        message=report.job.message,
        tasks=tuple(task.summary for task in report.tasks),
        seconds=report.seconds,
        of_model=report.of_model,
    )
    state = JobPageState(report.job, None, summary, 0, report.built)
    values = {
        "state": state,
        "title": model_name(report.job) if report.of_model else _title(report),
        "style": asset_text("tunefarm.css"),
        "model": model_view(state) if report.of_model else None,
        "drawn": [_task_values(report, task) for task in report.tasks],
        "seconds": _seconds(report),
        "numpy_latency_s": report.numpy_latency_s,
    }
    return fragment("report.html", values)


def _title(report: JobReport) -> str:
    more = f" and {len(report.tasks) - 1} more" if len(report.tasks) > 1 else ""
    return f"{report.tasks[0].name}{more}"


def _task_values(report: JobReport, task: TaskReport) -> dict[str, Any]:
    summary = task.summary.model_dump(mode="json")
    return {
        "task": task,
        "drawings": _drawings(report, task),
        "roofline": roofline_text(summary),
        "times": [(name, time_text(time)) for name, time in named_times(summary)],
        "trials": trials_text(summary),
    }


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
        plots.as_svg(draw(width_inches=width), label, is_themed=True)
        for width in (plots.WIDTH_INCHES, plots.NARROW_INCHES)
    )
    return Drawing(title, about, wide, narrow)
