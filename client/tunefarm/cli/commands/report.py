"""``tunefarm report``: an HTML page on a job."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tunefarm.terminal.console import say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.tables import print_json
from tunefarm.terminal.user_files import put_file, require_named
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.job import JobOutcome


def report(
    job_id: Annotated[
        str | None,
        typer.Argument(metavar="[JOB]", help="Id of a job, or a prefix of it. Default: the latest."),
    ] = None,
    output: Annotated[str, typer.Option(help="HTML file to write.")] = "report.html",
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON instead.")] = False,
) -> int:
    """Write a job as one HTML file: latencies, rooflines, failures, the cost model, and the time of each stage."""
    from tunefarm.builtin.numpy_latency import numpy_latency_s
    from tunefarm.local.machine import LocalMachine
    from tunefarm.records.local_records import schedule_view
    from tunefarm.report.job_report import job_report, latest_job
    from tunefarm.report.page import render_page
    from tunefarm.report.plots import prepare_matplotlib
    from tunefarm.startup.installation import private_folder

    require_named("output", output, "file")
    with LocalMachine() as machine:
        known = machine.known_store
        job = latest_job(None if known is None else known.jobs, job_id)
        figures = job_report(machine.store, job, partial(schedule_view, machine))
        if job.outcome is JobOutcome.SUCCEEDED:
            figures = figures.model_copy(update={"numpy_latency_s": numpy_latency_s(machine.store.targets, job)})
        prepare_matplotlib(private_folder(machine.settings, "matplotlib"))
    if as_json:
        print_json(figures.model_dump(mode="json"))
        return ExitCode.FINE
    try:
        path = Path(output).expanduser()
    except RuntimeError as error:
        raise BadInput("output", f"{output!r} does not name a user's folder.", "Give a file.") from error
    put_file(path, render_page(figures).encode())
    say(path.resolve())
    return ExitCode.FINE
