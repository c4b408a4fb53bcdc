"""``tunefarm watch``, ``logs``, ``pause``, ``resume``, ``finish`` and ``cancel``: control a job of a service."""

from typing import Annotated

import typer

from tunefarm.cli.remote_options import Api, AsJson, JobId
from tunefarm.terminal.console import say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.next_step import tell_next, with_api
from tunefarm.terminal.tables import print_json


def watch(job_id: JobId, api: Api = None, as_json: AsJson = False) -> int:
    """Show a job's progress until it ends. Ctrl-C does not affect the job."""
    from tunefarm.client import Client
    from tunefarm.remote.job_report import tell_end, tell_next_of

    with Client(api) as client:
        job = client.jobs.get(job_id)
        job.wait()
        code = tell_end(job, as_json=as_json)
        tell_next_of(job, api, as_json=as_json)
        return code


def logs(
    job_id: JobId,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for further events.")] = False,
    api: Api = None,
    as_json: AsJson = False,
) -> int:
    """Print the events of a job, one per line."""
    from tunefarm.client import Client
    from tunefarm.remote.event_text import event_json, event_line

    with Client(api) as client:
        job = client.jobs.get(job_id)
        for event in job.events() if follow else job.past_events():
            if as_json:
                print_json(event_json(event))
            else:
                say(event_line(event))
    return ExitCode.FINE


def pause(job_id: JobId, api: Api = None, as_json: AsJson = False) -> int:
    """Pause a job. Its measurements are kept."""
    return _ask("pause", job_id, api, as_json=as_json)


def resume(job_id: JobId, api: Api = None, as_json: AsJson = False) -> int:
    """Resume a paused job."""
    return _ask("resume", job_id, api, as_json=as_json)


def finish(job_id: JobId, api: Api = None, as_json: AsJson = False) -> int:
    """End a job's search early; its best schedule is verified and built."""
    return _ask("finish", job_id, api, as_json=as_json)


def cancel(job_id: JobId, api: Api = None, as_json: AsJson = False) -> int:
    """Cancel a job. Its measurements are kept."""
    return _ask("cancel", job_id, api, as_json=as_json)


def _ask(verb: str, job_id: str, api: str | None, *, as_json: bool) -> int:
    from tunefarm.client import Client

    with Client(api) as client:
        jobs = client.jobs
        ask = {"pause": jobs.pause, "resume": jobs.resume, "finish": jobs.finish, "cancel": jobs.cancel}[verb]
        view = ask(job_id)
    if as_json:
        print_json(view.model_dump(mode="json"))
    else:
        say(f"requested {verb} of job {view.job_id}; it is {view.outcome or view.state}")
        following = {"pause": "resume", "resume": "watch", "finish": "watch", "cancel": "jobs show"}[verb]
        tell_next(f"tunefarm {following} {view.job_id} {with_api(api)}".rstrip())
    return ExitCode.FINE
