"""Prints the result of a service's job."""

import shlex
from typing import TYPE_CHECKING

from tunefarm.terminal.console import complain, say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.job_text import job_text
from tunefarm.terminal.next_step import at_service, building, tell_next, watching, with_api
from tunefarm.terminal.tables import print_json
from tunefarm_schemas.tuning.job import JobOutcome
from tunefarm_schemas.visible_text import visible_line

if TYPE_CHECKING:
    from tunefarm.remote.remote_job import RemoteJob


def tell_end(job: "RemoteJob", *, as_json: bool) -> ExitCode:
    """Print the result of a job and return the exit status."""
    summary = job.summary or job.read_summary()
    if as_json:
        print_json({"job": job.view.model_dump(mode="json"), "summary": summary or None})
    elif summary:
        say(job_text(summary))
    if job.outcome is JobOutcome.SUCCEEDED:
        return ExitCode.FINE
    complain(visible_line(f"tunefarm: job {job.job_id} is {job.outcome or job.state}: {job.view.message}"))
    return ExitCode.NO_VALID_KERNEL


def tell_next_of(job: "RemoteJob", api: str | None, *, as_json: bool) -> None:
    """Print the next command after a job: build its library, or look at its events."""
    if as_json:
        return
    summary = job.summary or job.read_summary()
    record_id = next((task["record_id"] for task in summary.get("tasks", ()) if task.get("record_id")), None)
    if job.outcome is JobOutcome.SUCCEEDED:
        if record_id is not None:
            tell_next(building(str(record_id), at_service(api)))
    elif job.outcome is None:
        tell_next(watching(job.job_id, api))
    else:
        tell_next(f"tunefarm logs {shlex.quote(job.job_id)} {with_api(api)}".rstrip())
