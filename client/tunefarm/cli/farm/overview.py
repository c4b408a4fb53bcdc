"""``tunefarm overview``: what the farm does now, and did lately."""

from collections import Counter
from typing import Annotated

import typer

from tunefarm.cli.remote_options import Api, AsJson
from tunefarm.terminal.console import say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.tables import print_json, print_rows
from tunefarm_schemas.usage import TenantOverview
from tunefarm_schemas.views.quantities import duration_text, failures_text

HEADINGS = ("tenant", "queued", "running", "paused", "limit", "today", "recent", "measured/min", "waiting since")


def overview(
    all_tenants: Annotated[bool, typer.Option("--all-tenants", help="Every tenant, for operators.")] = False,
    api: Api = None,
    as_json: AsJson = False,
) -> int:
    """Show waiting jobs and quotas, measurements of the last hour, failures of the last day, and lanes by state."""
    from tunefarm.client import Client

    with Client(api) as client:
        found = client.overview(all_tenants=all_tenants)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return ExitCode.FINE
    print_rows(HEADINGS, [_row(each) for each in found.tenants], empty="no tenant is active")
    failures: Counter[str] = Counter()
    for each in found.tenants:
        failures.update(each.failures)
    say(f"failures in 24 hours: {failures_text(dict(failures))}")
    say(f"lanes: {', '.join(f'{state} {count}' for state, count in sorted(found.lanes.items())) or 'none'}")
    return ExitCode.FINE


def _row(each: TenantOverview) -> tuple[str, ...]:
    return (
        each.tenant,
        str(each.queued),
        str(each.running),
        str(each.paused),
        str(each.open_jobs_limit),
        duration_text(each.device_seconds_today),
        duration_text(each.recent_device_seconds),
        f"{sum(each.measurements_by_minute) / len(each.measurements_by_minute):.1f}",
        (each.oldest_queued_at or "-")[:19],
    )
