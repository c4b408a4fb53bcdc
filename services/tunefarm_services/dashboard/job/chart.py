"""The points of a job's charts, few enough to draw however long the job is."""

from collections.abc import Sequence
from typing import Final, TypeVar

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.job import Exploration
from tunefarm_schemas.views.jobs.summary import TaskSummary
from tunefarm_schemas.views.jobs.waterfall import waterfall
from tunefarm_services.dashboard.job.job_state import JobPageState
from tunefarm_services.store.trials.point_repository import PointRepository

MAX_POINTS: Final = 1_000
T = TypeVar("T")


class Chart(Frozen):
    """Points of one task. Latencies are in seconds.

    Attributes:
        end: the number after that of the last trial.
        best: the number of each trial that was faster than all before, and its latency.
        sample: number, latency and predicted score (or None) of timed trials, evenly chosen.
        stopped: the same of trials that were stopped early, with the lower bound of their latency.
        failures: failed trials by reason.
        times: of the latest run of the job: seconds since its start, and the best latency by then.
        untuned_s: latency without tuning.
        untried_s: latency of the schedule that was chosen without a trial.
        library_s: latency of the fastest library that was timed beside the model, and its name.
    """

    end: int
    best: tuple[tuple[int, float], ...]
    sample: tuple[tuple[int, float, float | None], ...]
    stopped: tuple[tuple[int, float, float | None], ...]
    failures: dict[str, int]
    times: tuple[tuple[float, float], ...]
    untuned_s: float | None
    untried_s: float | None
    library_s: float | None
    library: str


Times = tuple[tuple[float, float], ...]
"""Seconds since the start of a run, and the best latency by then."""


def chart_of(
    points: PointRepository, tenant: str, exploration: Exploration, state: JobPageState, times: Times
) -> Chart:
    """The chart of a task of a job. ``times`` are of the job's events of progress."""
    drawn = points.of_exploration(tenant, exploration.exploration_id, MAX_POINTS)
    tasks = state.summary.tasks if state.summary is not None else ()
    summary = next((task for task in tasks if task.exploration_id == exploration.exploration_id), None)
    untuned_s = summary.untuned_latency_s if summary is not None else None
    if untuned_s is None and state.progress is not None and len(state.job.spec.tasks) == 1:
        untuned_s = state.progress.untuned_latency_s
    rows = [] if summary is None else waterfall({"tasks": [summary.model_dump(mode="json")]}, state.built)
    return Chart(
        end=drawn.end,
        best=drawn.best,
        sample=drawn.sample,
        stopped=drawn.stopped,
        failures=drawn.failures,
        times=tuple(thinned(_times(state, summary, times))),
        untuned_s=untuned_s,
        untried_s=None if summary is None else summary.untried_latency_s,
        library_s=rows[0].library_s if rows else None,
        library=rows[0].library if rows else "",
    )


def _times(state: JobPageState, summary: TaskSummary | None, times: Times) -> Times:
    """From the summary, which has each improvement, or from the progress of a job with one task."""
    if summary is not None:
        points = [(each.elapsed_s, each.latency_s) for each in summary.improvements if not each.is_verified]
        end_s = state.elapsed_s
        return (*points, (max(end_s or 0.0, points[-1][0]), points[-1][1])) if points else ()
    return times if len(state.job.spec.tasks) == 1 else ()


def thinned(points: Sequence[T]) -> Sequence[T]:
    """At most ``MAX_POINTS`` evenly chosen points, the last among them."""
    step = len(points) // MAX_POINTS + 1
    return points[::-1][::step][::-1]
