"""``tunefarm jobs compare``: two jobs side by side."""

import shlex
from typing import Annotated

import typer

from tunefarm.cli.remote_options import Api, AsJson
from tunefarm.terminal.console import say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.next_step import tell_next, with_api
from tunefarm.terminal.tables import print_json, print_rows
from tunefarm_schemas.views.jobs.job import ComparedJob, ComparedTask, JobComparison, TaskFigures
from tunefarm_schemas.views.quantities import duration_text, failures_text, latency_text

FirstJob = Annotated[str, typer.Argument(metavar="FIRST", help="Id of a job, or a prefix of it.")]
SecondJob = Annotated[str, typer.Argument(metavar="SECOND", help="Id of the other job, or a prefix of it.")]
JOB_HEADINGS = ("", "job", "state", "trials", "ran for", "failures")
TASK_HEADINGS = ("function", "first", "second", "ratio", "difference")


def compare_jobs(first: FirstJob, second: SecondJob, api: Api = None, as_json: AsJson = False) -> int:
    """Compare two jobs: results by function, failures, and the differences of their requests."""
    from tunefarm.client import Client

    with Client(api) as client:
        found = client.jobs.compare(first, second)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return ExitCode.FINE
    print_rows(JOB_HEADINGS, [_job_row("first", found.first), _job_row("second", found.second)], empty="")
    say("")
    print_rows(TASK_HEADINGS, [_task_row(each) for each in found.tasks], empty="")
    say("")
    rows = [(each.field, each.first, each.second) for each in found.differences]
    print_rows(("request", "first", "second"), rows, empty="their requests are equal")
    tell_next(_next(found, api))
    return ExitCode.FINE


def _job_row(name: str, job: ComparedJob) -> tuple[str, ...]:
    return (
        name,
        job.job_id,
        job.outcome.value if job.outcome else job.state.value,
        "-" if job.trials is None else str(job.trials),
        duration_text(job.elapsed_s),
        failures_text(job.failures),
    )


def _task_row(task: ComparedTask) -> tuple[str, ...]:
    ratio = "-" if task.ratio is None else f"{task.ratio:.3g}x"
    return task.name, _latency(task.first), _latency(task.second), ratio, _difference(task)


def _latency(figures: TaskFigures | None) -> str:
    return "no such task" if figures is None else latency_text(figures.best_latency_s)


def _difference(task: ComparedTask) -> str:
    """Whether the difference is more than noise, as far as the intervals say."""
    if task.first and task.second and task.first.device_class_id != task.second.device_class_id:
        return "other device class"
    if task.intervals_overlap is None or task.ratio is None:
        return "-"
    if task.intervals_overlap:
        return "within noise"
    is_doubtful = any(figures is not None and figures.was_busy for figures in (task.first, task.second))
    faster = "second is faster" if task.ratio > 1 else "first is faster"
    return f"{faster}, measured on a busy host" if is_doubtful else faster


def _next(found: JobComparison, api: str | None) -> str:
    return f"tunefarm jobs show {shlex.quote(found.second.job_id)} {with_api(api)}".rstrip()
