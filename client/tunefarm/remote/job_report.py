"""How a job of a service ended, as text, as JSON, and as an exit status."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tunefarm.console import complain, say
from tunefarm.exit_code import ExitCode
from tunefarm.quantities import duration_text, failures_text, latency_text, ratio_text
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


def job_text(summary: Mapping[str, Any]) -> str:
    """A few lines for each task."""
    blocks = [_task_text(task) for task in summary.get("tasks", ())]
    total_s = dict(summary.get("seconds") or {}).get("total")
    return "\n".join([*blocks, f"{duration_text(total_s)} in all, job {summary.get('job_id')}"])


def _task_text(task: Mapping[str, Any]) -> str:
    best_s, untuned_s = task.get("best_latency_s"), task.get("untuned_latency_s")
    gain = f", {ratio_text(untuned_s, best_s)} faster" if untuned_s and best_s else ""
    busy = ", taken while the host was busy" if task.get("was_busy") else ""
    failures = failures_text(dict(task.get("failures") or {}))
    trials = "answered from the store, 0" if task.get("answered_from_store") else task.get("trials")
    lines = [
        visible_line(str(task.get("name"))),
        f"  untuned  {latency_text(untuned_s)}",
        f"  tuned    {latency_text(best_s)}{gain}{busy}",
        f"  {trials} trials, failures {failures}",
    ]
    if task.get("record_id"):
        lines.append(f"  record   {task['record_id']}")
    if best_s is None and task.get("first_failure_message"):
        lines.append(f"  first failure: {str(task['first_failure_message']).strip()[:400]}")
    return "\n".join(lines)
