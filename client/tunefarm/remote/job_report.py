"""How a job of a service ended, printed and as an exit status."""

from typing import TYPE_CHECKING

from tunefarm.console import complain, say
from tunefarm.exit_code import ExitCode
from tunefarm.job_text import job_text
from tunefarm.tables import print_json
from tunefarm_schemas.job import JobOutcome
from tunefarm_schemas.visible_text import visible_line

if TYPE_CHECKING:
    from tunefarm.remote.remote_job import RemoteJob


def tell_end(job: "RemoteJob", *, as_json: bool) -> ExitCode:
    """Print how a job ended; the exit status."""
    summary = job.summary or job.read_summary()
    if as_json:
        print_json({"job": job.view.model_dump(mode="json"), "summary": summary or None})
    elif summary:
        say(job_text(summary))
    if job.outcome is JobOutcome.SUCCEEDED:
        return ExitCode.FINE
    complain(visible_line(f"tunefarm: job {job.job_id} is {job.outcome or job.state}: {job.view.message}"))
    return ExitCode.NO_VALID_KERNEL
