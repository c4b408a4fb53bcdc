"""``tunefarm jobs clone`` and ``extend``: jobs made from another one."""

from typing import Annotated

import typer

from tunefarm.cli.remote_options import Api, AsJson, JobId
from tunefarm.options.label_option import labels_of_texts
from tunefarm.terminal.console import complain, say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.next_step import tell_next, watching
from tunefarm.terminal.tables import print_json
from tunefarm_schemas.tuning.job import Strategy
from tunefarm_schemas.views.jobs.job import NewJob


def clone_job(
    job_id: JobId,
    trials: Annotated[int | None, typer.Option(min=1, help="Number of trials. Default: that of the job.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0.001, help="Time limit. Default: that of the job.")] = None,
    strategy: Annotated[Strategy | None, typer.Option(help="Strategy of the search. Default: that of the job.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the search. Default: that of the job.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE; replaces all labels of the job. Repeatable.")
    ] = None,
    fresh: Annotated[
        bool | None, typer.Option("--fresh/--no-fresh", help="Ignore stored results. Default: as the job.")
    ] = None,
    api: Api = None,
    as_json: AsJson = False,
) -> int:
    """Create a job for the tasks of another one. With the same effort the store answers it, unless it is fresh."""
    from tunefarm.client import Client

    effort = {name: value for name, value in (("trials", trials), ("seconds", seconds)) if value is not None}
    labels = None if label is None else labels_of_texts(label)
    with Client(api) as client:
        made = client.jobs.clone(
            job_id, effort=effort or None, strategy=strategy, seed=seed, labels=labels, fresh=fresh
        )
    return _tell(made, api, as_json=as_json)


def extend_job(
    job_id: JobId,
    trials: Annotated[int, typer.Option(min=1, help="Number of further trials.")],
    api: Api = None,
    as_json: AsJson = False,
) -> int:
    """Create a job that continues the search of another one, and waits while that runs. Drops its other limits."""
    from tunefarm.client import Client

    with Client(api) as client:
        made = client.jobs.extend(job_id, trials)
    return _tell(made, api, as_json=as_json)


def _tell(made: NewJob, api: str | None, *, as_json: bool) -> int:
    if as_json:
        print_json(made.model_dump(mode="json"))
        return ExitCode.FINE
    say(made.job_id)
    for note in made.notes:
        complain(f"note: {note}")
    tell_next(watching(made.job_id, api))
    return ExitCode.FINE
