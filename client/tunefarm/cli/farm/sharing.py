"""``tunefarm sharing``: which tenants share trials and records, directly in the database of the service."""

from typing import Annotated, TypeAlias

import typer

from tunefarm.terminal.console import say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.next_step import tell_next
from tunefarm.terminal.tables import print_json, print_rows

Tenant: TypeAlias = Annotated[str, typer.Argument(help="Name of the tenant.")]

sharing = typer.Typer(
    help="Let tenants share trials and records of the functions that they have in common, on a host with access to the "
    "database.",
    no_args_is_help=True,
)


@sharing.command("join")
def join(group: Annotated[str, typer.Argument(help="Name of the sharing group.")], tenant: Tenant) -> int:
    """Add a tenant to a sharing group, which exists as long as it has tenants."""
    from tunefarm.startup.installation import opened_store

    with opened_store() as store:
        store.sharing_groups.join(group, tenant)
        others = [each for each in store.sharing_groups.all()[group] if each != tenant]
    say(f"{tenant} shares trials and records with {', '.join(others) or 'no other tenant yet'}")
    tell_next("tunefarm sharing list")
    return ExitCode.FINE


@sharing.command("leave")
def leave(tenant: Tenant) -> int:
    """Remove a tenant from its sharing group. Each tenant keeps what it has taken over."""
    from tunefarm.startup.installation import opened_store

    with opened_store() as store:
        store.sharing_groups.leave(tenant)
    say(f"{tenant} shares nothing")
    return ExitCode.FINE


@sharing.command("list")
def list_groups(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> int:
    """List the sharing groups with their tenants."""
    from tunefarm.startup.installation import opened_store

    with opened_store() as store:
        groups = store.sharing_groups.all()
    if as_json:
        print_json({name: list(tenants) for name, tenants in groups.items()})
    else:
        rows = [(name, ", ".join(tenants)) for name, tenants in groups.items()]
        print_rows(("group", "tenants"), rows, empty="no tenants share anything")
    return ExitCode.FINE
