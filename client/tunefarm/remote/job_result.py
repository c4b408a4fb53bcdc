"""Calls for the results of a job."""

from collections.abc import Mapping
from typing import Any

from tunefarm.http.calls.artifact_calls import RemoteArtifact, artifact
from tunefarm.http.calls.job_calls import job_events
from tunefarm.http.paging import listed
from tunefarm.http.request import Flow
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.record import TuningRecord
from tunefarm_schemas.views.jobs.trial import TrialView


def job_summary(job_id: str) -> Flow[Mapping[str, Any]]:
    """The job's last summary, with one entry per task; empty before there is one."""
    events = yield from job_events(job_id)
    return next((event.data for event in reversed(events) if event.kind == "summary"), {})


def job_records(job_id: str) -> Flow[list[TuningRecord]]:
    """The best verified record of each task of the job that has one."""
    return listed(f"/jobs/{job_id}/records", TuningRecord, {}, None)


def job_trials(job_id: str, *, failed_only: bool = False, limit: int | None = None) -> Flow[list[TrialView]]:
    """The job's trials with their measurements; only those without a timing if ``failed_only``."""
    return listed(f"/jobs/{job_id}/trials", TrialView, {"failed_only": failed_only}, limit)


def artifacts_of_job(job_id: str) -> Flow[list[RemoteArtifact | None]]:
    """The compiled library of each task of the job; None for a task without one."""
    summary = yield from job_summary(job_id)
    found: list[RemoteArtifact | None] = []
    for task in summary.get("tasks", ()):
        artifact_id = task.get("artifact_id")
        found.append((yield from artifact(str(artifact_id))) if artifact_id else None)
    return found


def artifact_of_job(job_id: str, task: str | None = None) -> Flow[RemoteArtifact]:
    """The compiled library of the task named ``task``, or of the only task.

    Raises:
        BadInput: there is no library, or there are several and ``task`` is None.
    """
    summary = yield from job_summary(job_id)
    built = {
        str(each["name"]): str(each["artifact_id"]) for each in summary.get("tasks", ()) if each.get("artifact_id")
    }
    if task is None and len(built) == 1:
        task = next(iter(built))
    if task not in built:
        problem = f"job {job_id} has no library" + (f" of {task!r}." if task else " yet." if not built else " alone.")
        raise BadInput("task", problem, f"Name one of: {', '.join(built)}." if built else "Wait until it succeeds.")
    return (yield from artifact(built[task]))
