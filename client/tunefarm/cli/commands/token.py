"""``tunefarm token``: manages the tokens of the service, directly in its database."""

import shlex
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from tunefarm.terminal.console import say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.next_step import tell_next
from tunefarm.terminal.tables import print_json, print_list
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.token import Scope, Token

LOCAL_TENANT = "local"

token = typer.Typer(
    help="Create, list, rotate and revoke tokens, on a host with access to the database.", no_args_is_help=True
)

USERS_SCOPES = tuple(
    scope for scope in Scope if scope not in {Scope.TOKENS_ADMIN, Scope.DEVICES_ADMIN, Scope.EDGE_POLL}
)


@token.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Name of the user or the purpose.")],
    tenant: Annotated[str, typer.Option(help="Tenant whose jobs and records it gives access to.")] = LOCAL_TENANT,
    scope: Annotated[
        list[Scope] | None,
        typer.Option(help="Permission of the token. Repeatable. Default: all except administration."),
    ] = None,
    days: Annotated[float | None, typer.Option(help="Days until it expires. Default: never.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Create a token and print it. It cannot be shown again."""
    if days is not None and not days > 0:
        raise BadInput("--days", f"{days:g} is not a positive number.", "Give a positive number, or omit it.")
    if not (name.strip() and tenant.strip()) or len(name) > 200 or len(tenant) > 100:
        raise BadInput("NAME", "a name or a tenant is empty or too long.", "Use 1 to 100 characters.")
    expires_at = None if days is None else (datetime.now(UTC) + timedelta(days=days)).isoformat()
    from tunefarm.startup.installation import opened_store

    with opened_store(create=True) as store:
        made, text = store.tokens.create(tenant, name, tuple(scope or USERS_SCOPES), expires_at)
    if as_json:
        print_json({"token": text, **made.model_dump(mode="json")})
    else:
        say(text)
        tell_next("on the client, set TUNEFARM_API_TOKEN to it and TUNEFARM_API_URL to the service")
    return ExitCode.FINE


@token.command("list")
def list_tokens(
    tenant: Annotated[str, typer.Option(help="Tenant to list.")] = LOCAL_TENANT,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """List a tenant's tokens. Their secrets are not stored and cannot be shown."""
    from tunefarm.startup.installation import opened_store

    with opened_store() as store:
        found = store.tokens.of_tenant(tenant)
    headings = ("token", "name", "state", "last used", "scopes")
    return print_list(found, headings, _row, empty=f"tenant {tenant} has no tokens", as_json=as_json)


@token.command("revoke")
def revoke(
    token_id: Annotated[str, typer.Argument(help="Id of the token, as shown by token list.")],
    tenant: Annotated[str, typer.Option(help="Tenant that it belongs to.")] = LOCAL_TENANT,
) -> int:
    """Revoke a token permanently, with immediate effect."""
    from tunefarm.startup.installation import opened_store

    with opened_store() as store:
        store.tokens.revoke(tenant, token_id)
    say(f"{token_id} is revoked")
    tell_next(f"tunefarm token list --tenant {shlex.quote(tenant)}")
    return ExitCode.FINE


@token.command("rotate")
def rotate(
    token_id: Annotated[str, typer.Argument(help="Id of the token, as shown by token list.")],
    tenant: Annotated[str, typer.Option(help="Tenant that it belongs to.")] = LOCAL_TENANT,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Replace the secret of a token and print the new text. The old one stops working at once."""
    from tunefarm.startup.installation import opened_store

    with opened_store() as store:
        rotated, text = store.tokens.rotate(tenant, token_id)
    if as_json:
        print_json({"token": text, **rotated.model_dump(mode="json")})
    else:
        say(text)
        tell_next("on the client, set TUNEFARM_API_TOKEN to it")
    return ExitCode.FINE


def _row(one: Token) -> tuple[str, ...]:
    now = datetime.now(UTC).isoformat()
    state = "revoked" if one.revoked_at else "expired" if one.expires_at and one.expires_at < now else "works"
    return one.token_id, one.name, state, one.last_used_at or "never", " ".join(one.scopes)
