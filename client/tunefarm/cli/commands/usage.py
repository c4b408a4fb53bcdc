"""``tunefarm usage``: use of a farm."""

from typing import Annotated

import typer

from tunefarm.cli.remote_options import Api, AsJson
from tunefarm.terminal.tables import print_list
from tunefarm_schemas.usage import Usage
from tunefarm_schemas.views.quantities import duration_text


def usage(
    since: Annotated[str | None, typer.Option(metavar="DAY", help="First day, such as 2026-01-31.")] = None,
    all_tenants: Annotated[bool, typer.Option("--all-tenants", help="Usage of every tenant, for operators.")] = False,
    api: Api = None,
    as_json: AsJson = False,
) -> int:
    """Show device time, trials and jobs per day, tenant and device class."""
    from tunefarm.client import Client

    with Client(api) as client:
        found = client.usage(since=since, all_tenants=all_tenants)
    headings = ("day", "tenant", "class", "device time", "trials", "jobs")
    return print_list(found, headings, _row, empty="no usage", as_json=as_json)


def _row(use: Usage) -> tuple[str, ...]:
    device_time = duration_text(use.device_seconds)
    return use.day, use.tenant, use.device_class_id[:12], device_time, str(use.trials), str(use.jobs)
