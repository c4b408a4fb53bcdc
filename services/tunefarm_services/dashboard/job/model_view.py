"""A model as its page and the report show it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from tunefarm_schemas.tuning.job import Job, JobState
from tunefarm_schemas.views.jobs.waterfall import (
    WaterfallBar,
    WaterfallRow,
    bucket_cells,
    gain_line,
    measured_s,
    shipped_line,
    times_cells,
    waterfall,
    waterfall_bars,
)
from tunefarm_schemas.views.quantities import counted
from tunefarm_services.dashboard.job.job_state import JobPageState

UNFINISHED: Final = "The model is built and timed when its job ends."
UNBUILT: Final = (
    "The model was not built. Its job tuned its functions only, or ended before; tunefarm tune builds and times a "
    "model after its functions."
)


@dataclass(frozen=True)
class ModelView:
    """The waterfall of a model and the times of its build.

    Attributes:
        name: the file of the model, and how many functions it has.
        rows: its functions, those that take most of its time first.
        bars: of the drawn waterfall; empty before each function has a latency.
        gain: the predicted time and the gains, as text.
        measured: seconds of one run of each build with warm caches, by build.
        times: cells of the table of predicted and measured times; empty if the model was not built.
        buckets: cells of the table of its sizes.
        ships: which build ships.
        unbuilt: why there are no measured times.
    """

    name: str
    rows: list[WaterfallRow]
    bars: list[WaterfallBar]
    gain: str
    measured: Mapping[str, float]
    times: list[tuple[str, ...]]
    buckets: list[tuple[str, ...]]
    ships: str
    unbuilt: str


def model_view(state: JobPageState) -> ModelView:
    """The view of the model of a job."""
    built = state.built
    rows = waterfall({"tasks": _tasks(state)}, built)
    measured = measured_s(built or {})
    return ModelView(
        name=model_name(state.job),
        rows=rows,
        bars=waterfall_bars(rows, measured),
        gain=gain_line(rows),
        measured=measured,
        times=[] if built is None else times_cells(built, rows),
        buckets=[] if built is None else bucket_cells(built),
        ships="" if built is None else shipped_line(built),
        unbuilt=UNBUILT if state.job.state is JobState.FINISHED else UNFINISHED,
    )


def model_name(job: Job) -> str:
    """The file name of a model, and how many functions it has."""
    name = PurePath(job.spec.labels.get("module", "")).name
    functions = f"a model of {counted(len(job.spec.tasks), 'function')}"
    return f"{name}, {functions}" if name else functions


def _tasks(state: JobPageState) -> list[dict[str, Any]]:
    """The tasks of the latest summary, of the latest progress, or of the request."""
    if state.summary is not None:
        return [task.model_dump(mode="json") for task in state.summary.tasks]
    if state.progress is not None and state.progress.tasks:
        return [task.model_dump(mode="json") for task in state.progress.tasks]
    return [{"name": task.name, "weight": task.weight} for task in state.job.spec.tasks]
