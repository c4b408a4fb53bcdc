"""``tunefarm usage``: use of a farm."""

from typing import Annotated

import typer

from tunefarm.cli.remote_options import Api, AsJson
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.tables import print_json, print_rows
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
    if as_json:
        print_json([each.model_dump(mode="json") for each in found])
        return ExitCode.FINE
    rows = [
        (
            each.day,
            each.tenant,
            each.device_class_id[:12],
            duration_text(each.device_seconds),
            str(each.trials),
            str(each.jobs),
        )
        for each in found
    ]
    print_rows(("day", "tenant", "class", "device time", "trials", "jobs"), rows, empty="no usage")
    return ExitCode.FINE
