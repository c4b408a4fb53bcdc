"""``tunefarm jobs``: the jobs of a service."""

from typing import Annotated

import typer

from tunefarm.cli.remote_options import Api, AsJson, JobId
from tunefarm.options.label_option import labels_of_texts
from tunefarm.terminal.console import say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.tables import print_json, print_rows
from tunefarm_schemas.tuning.job import Job, JobState
from tunefarm_schemas.views.fleet import ReleaseInField
from tunefarm_schemas.views.quantities import latency_text

jobs = typer.Typer(help="List, show and delete the jobs of a service.", no_args_is_help=True)

HEADINGS = ("job", "state", "tasks", "trials", "created", "labels", "message")
FIELD_HEADINGS = ("in the field", "channel", "records", "devices", "runs", "p50", "measured", "x measured", "slow")


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
    if as_json:
        print_json([view.model_dump(mode="json") for view in found])
    else:
        print_rows(HEADINGS, [job_row(view) for view in found], empty="no jobs")
    return ExitCode.FINE


@jobs.command("show")
def show_job(job_id: JobId, api: Api = None, as_json: AsJson = False) -> int:
    """Show a job and its summary, and what devices report of releases that were built with its records."""
    from tunefarm.client import Client
    from tunefarm.remote.job_report import tell_next_of
    from tunefarm.terminal.job_text import job_text

    with Client(api) as client:
        job = client.jobs.get(job_id)
        job.summary = summary = job.read_summary()
        field = client.jobs.field(job.job_id)
    if as_json:
        shown = {"job": job.view.model_dump(mode="json"), "summary": summary or None}
        print_json(shown | {"field": [each.model_dump(mode="json") for each in field]})
    else:
        print_rows(HEADINGS, [job_row(job.view)], empty="")
        if summary:
            say(job_text(summary))
        if field:
            print_rows(FIELD_HEADINGS, [_field_row(each) for each in field], empty="")
        tell_next_of(job, api, as_json=as_json)
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


def _field_row(release: ReleaseInField) -> tuple[str, ...]:
    """A release as cells of a table. Latencies are those of the whole model."""
    field = release.field
    return (
        release.release,
        release.channel,
        str(len(release.record_ids)),
        str(field.devices),
        str(field.runs),
        latency_text(field.p50_s),
        latency_text(field.expected_p50_s),
        "-" if field.median_ratio is None else f"{field.median_ratio:.3f}",
        str(field.drifting),
    )


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
