"""``tunefarm fleet codes``: codes that enrol edge devices."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from tunefarm.cli.remote_options import Api, AsJson
from tunefarm.terminal.console import say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.next_step import tell_next, with_api
from tunefarm.terminal.tables import print_json, print_list
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.views.fleet import EnrolmentCode

codes = typer.Typer(help="Create, list and delete codes that enrol devices.", no_args_is_help=True)

HEADINGS = ("code", "channel", "state", "expires", "device", "labels")
MAX_HOURS = 24.0 * 3650


@codes.command("create")
def create_code(
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="The channel that the device follows.")],
    label: Annotated[
        list[str], typer.Option("--label", metavar="NAME=VALUE", help="Label of the device. Repeatable.")
    ] = [],  # noqa: B006 - typer copies it
    hours: Annotated[float, typer.Option(help="Hours until it expires.")] = 24.0,
    api: Api = None,
    as_json: AsJson = False,
) -> int:
    """Create a code that enrols one device, and print it. It cannot be shown again."""
    from tunefarm.client import Client
    from tunefarm.options.label_option import labels_of_texts

    if not 0 < hours <= MAX_HOURS:
        raise BadInput("--hours", f"{hours:g} is not between 0 and {MAX_HOURS:g}.", "Give a positive number.")
    labels = labels_of_texts(label)
    expires_at = datetime.now(UTC) + timedelta(hours=hours)
    with Client(api) as client:
        made = client.fleet.create_code(channel, labels, expires_at)
    if made.text is None:
        raise BadInput("CHANNEL", "the code was created, but its text was lost in transit.", "Create another one.")
    if as_json:
        print_json({"text": made.text, **made.code.model_dump(mode="json")})
    else:
        say(made.text)
        tell_next(f"enrol the device with it; then: tunefarm fleet devices {with_api(api)}".rstrip())
    return ExitCode.FINE


@codes.command("list")
def list_codes(api: Api = None, as_json: AsJson = False) -> int:
    """List codes, including used and expired ones. Their secrets are not stored and cannot be shown."""
    from tunefarm.client import Client

    with Client(api) as client:
        found = client.fleet.codes()
    return print_list(found, HEADINGS, _row, empty="no codes; see: tunefarm fleet codes create --help", as_json=as_json)


@codes.command("delete")
def delete_code(
    code_id: Annotated[str, typer.Argument(metavar="CODE", help="Id of a code, as shown by fleet codes list.")],
    api: Api = None,
    as_json: AsJson = False,
) -> int:
    """Delete a code: it no longer enrols a device."""
    from tunefarm.client import Client

    with Client(api) as client:
        client.fleet.delete_code(code_id)
    if as_json:
        print_json({"code_id": code_id})
    else:
        say(f"{code_id} is deleted")
        tell_next(f"tunefarm fleet codes list {with_api(api)}".rstrip())
    return ExitCode.FINE


def _row(code: EnrolmentCode) -> tuple[str, ...]:
    is_expired = datetime.fromisoformat(code.expires_at) <= datetime.now(UTC)
    state = "used" if code.used_at else "expired" if is_expired else "open"
    labels = " ".join(f"{name}={value}" for name, value in sorted(code.labels.items()))
    return code.code_id, code.channel, state, code.expires_at[:19], code.edge_device_id or "-", labels
