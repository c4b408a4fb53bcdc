"""A job as one HTML page that needs no other file and no network."""

from pathlib import Path

from tunefarm.quantities import duration_text, latency_text, ratio_text
from tunefarm.report import plots
from tunefarm.report.job_report import JobReport, TaskReport


def render_page(report: JobReport) -> str:
    """The HTML text. Everything that comes from a user is escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters.update(latency=latency_text, duration=duration_text)
    environment.globals["ratio"] = ratio_text
    drawn = [{"task": task, "plots": _plots(report, task)} for task in report.tasks]
    seconds = plots.as_svg(plots.seconds_spent(report.seconds))
    return environment.get_template("page.html").render(report=report, drawn=drawn, seconds_plot=seconds)


def _plots(report: JobReport, task: TaskReport) -> dict[str, str]:
    drawn = {
        "Best latency over time": plots.latency_over_time(
            task, report.seconds.get("total", 0.0), report.numpy_latency_s
        ),
        "Best latency over trials": plots.latency_over_trials(task, report.numpy_latency_s),
    }
    if task.failures:
        drawn["Failures by reason"] = plots.failures_by_reason(task.failures)
    if task.accuracy:
        drawn["Accuracy of the cost model"] = plots.model_accuracy(task.accuracy)
    return {title: plots.as_svg(figure) for title, figure in drawn.items()}
