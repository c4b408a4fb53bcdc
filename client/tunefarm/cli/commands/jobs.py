"""``tunefarm jobs``: the jobs of a service."""

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated

import typer

from tunefarm.cli.jobs.comparison import compare_jobs
from tunefarm.cli.jobs.copies import clone_job, extend_job
from tunefarm.cli.remote_options import Api, AsJson, JobId
from tunefarm.cli.text.record_text import FIELD_HEADINGS, field_rows
from tunefarm.options.label_option import labels_of_texts
from tunefarm.terminal.console import say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.tables import print_json, print_list, print_rows
from tunefarm_schemas.tuning.job import Job, JobState
from tunefarm_schemas.views.record import RecordInField

if TYPE_CHECKING:
    from tunefarm.client import Client

jobs = typer.Typer(help="List, show, compare, copy and delete the jobs of a service.", no_args_is_help=True)

jobs.command("compare")(compare_jobs)
jobs.command("clone")(clone_job)
jobs.command("extend")(extend_job)

HEADINGS = ("job", "state", "tasks", "trials", "created", "labels", "message")


@jobs.command("list")
def list_jobs(
    state: Annotated[JobState | None, typer.Option(help="Only jobs in this state.")] = None,
    label: Annotated[list[str] | None, typer.Option(help="NAME=VALUE; only jobs with this label. Repeatable.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10000, help="Maximum number of jobs.")] = 50,
    api: Api = None,
    as_json: AsJson = False,
) -> int:
    """List jobs, the newest first."""
    from tunefarm.client import Client

    labels = labels_of_texts(label or ())
    with Client(api) as client:
        found = [job.view for job in client.jobs.list(state=state, labels=labels, limit=limit)]
    return print_list(found, HEADINGS, job_row, empty="no jobs", as_json=as_json)


@jobs.command("show")
def show_job(job_id: JobId, api: Api = None, as_json: AsJson = False) -> int:
    """Show a job and its summary, and what devices report of releases that were built with its records."""
    from tunefarm.client import Client
    from tunefarm.remote.job_report import tell_next_of
    from tunefarm.terminal.job_text import job_text

    with Client(api) as client:
        job = client.jobs.get(job_id)
        job.summary = summary = job.read_summary()
        field = _field_of(client, job.job_id)
    if as_json:
        shown = {"job": job.view.model_dump(mode="json"), "summary": summary or None}
        print_json(shown | {"field": [each.model_dump(mode="json") for each in field]})
    else:
        print_rows(HEADINGS, [job_row(job.view)], empty="")
        if summary:
            say(job_text(summary))
        if rows := [(each.record_id[:12], *row) for each in field for row in field_rows(each)]:
            say("\n# In the field")
            print_rows(("record", *FIELD_HEADINGS), rows, empty="")
        tell_next_of(job, api, as_json=as_json)
    return ExitCode.FINE


@jobs.command("space")
def show_space(
    job_id: JobId,
    task: Annotated[int, typer.Option(min=0, help="Position of the task in the job.")] = 0,
    api: Api = None,
    as_json: AsJson = False,
) -> int:
    """Show which decisions of a task's schedules matter, and how well its cost model ranks."""
    from tunefarm.cli.text.space_text import space_text
    from tunefarm.client import Client

    with Client(api) as client:
        view = client.jobs.space(job_id, task)
    if as_json:
        print_json(view.model_dump(mode="json"))
    else:
        say(space_text(view))
    return ExitCode.FINE


@jobs.command("delete")
def delete_job(job_id: JobId, api: Api = None, as_json: AsJson = False) -> int:
    """Delete a job and its events. Its trials and records stay."""
    from tunefarm.client import Client

    with Client(api) as client:
        job_id = client.jobs.get(job_id).job_id
        client.jobs.delete(job_id)
    if as_json:
        print_json({"job_id": job_id, "deleted": True})
    else:
        say(f"job {job_id} is deleted")
    return ExitCode.FINE


def _field_of(client: "Client", job_id: str) -> list[RecordInField]:
    """What devices report of the job's records; empty if the token may not see that."""
    from tunefarm.http.api_error import ApiError

    try:
        return client.jobs.field(job_id)
    except ApiError as refusal:
        if refusal.status != HTTPStatus.FORBIDDEN:
            raise
        return []


def job_row(view: Job) -> tuple[str, ...]:
    """A job as cells of a table."""
    labels = " ".join(f"{name}={value}" for name, value in view.spec.labels.items())
    return (
        view.job_id,
        view.outcome.value if view.outcome else view.state.value,
        ", ".join(task.name for task in view.spec.tasks[:4]) + (", ..." if len(view.spec.tasks) > 4 else ""),
        str(view.spec.effort.trials),
        view.created_at[:19],
        labels,
        view.message,
    )
