"""``tunefarm fleet``: edge devices."""

import shlex
from typing import Annotated

import typer

from tunefarm.cli.edge.enrolment_codes import codes
from tunefarm.cli.remote_options import Api, AsJson
from tunefarm.terminal.console import say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.next_step import tell_next, with_api
from tunefarm.terminal.tables import print_json, print_list, print_rows
from tunefarm_schemas.views.fleet import EdgeDeviceView, FieldLatency, FleetChange, FleetSummary
from tunefarm_schemas.views.quantities import counted, latency_text
from tunefarm_schemas.visible_text import visible_line

fleet = typer.Typer(help="List, summarise and control edge devices.", no_args_is_help=True)
fleet.add_typer(codes, name="codes")

EdgeDeviceId = Annotated[str, typer.Argument(metavar="DEVICE", help="Id of a device, as shown by fleet devices.")]
HEADINGS = ("device", "name", "channel", "runs", "failure", "state", "seen", "architecture", "labels")
CHANGE_HEADINGS = ("at", "by", "action", "subject", "reason")
LATENCY_HEADINGS = (
    "release",
    "devices",
    "runs",
    "p50",
    "slowest tenth",
    "p95",
    "slowest tenth",
    "manifest",
    "x manifest",
    "slow",
)


@fleet.command("devices")
def list_edge_devices(
    channel: Annotated[str | None, typer.Option(help="Only devices of this channel.")] = None,
    release: Annotated[str | None, typer.Option(help="Only devices that run this release.")] = None,
    failure: Annotated[
        str | None, typer.Option(help="Only devices whose latest installation failed as, say, load_failed.")
    ] = None,
    api: Api = None,
    as_json: AsJson = False,
) -> int:
    """List devices, what they run, and how their latest installation failed."""
    from tunefarm.client import Client

    with Client(api) as client:
        found = client.fleet.devices(channel, release, failure)
    return print_list(found, HEADINGS, _row, empty="no devices", as_json=as_json)


@fleet.command("summary")
def show_summary(api: Api = None, as_json: AsJson = False) -> int:
    """Count devices by channel, release and failure."""
    from tunefarm.client import Client

    with Client(api) as client:
        summary = client.fleet.summary()
    if as_json:
        print_json(summary.model_dump(mode="json"))
    else:
        _print_summary(summary)
        tell_next(f"tunefarm channel list {with_api(api)}".rstrip())
    return ExitCode.FINE


@fleet.command("latency")
def show_latency(
    release: Annotated[str, typer.Argument(metavar="RELEASE", help="Name of a release.")],
    api: Api = None,
    as_json: AsJson = False,
) -> int:
    """Show the latencies of a release as devices report them, beside those of its manifests."""
    from tunefarm.client import Client

    with Client(api) as client:
        latency = client.fleet.latency(release)
    if as_json:
        print_json(latency.model_dump(mode="json"))
    else:
        rows = [_latency_row(latency)] if latency.devices else []
        print_rows(LATENCY_HEADINGS, rows, empty=f"no device has reported a latency of {visible_line(release)}")
    return ExitCode.FINE


@fleet.command("changes")
def list_changes(
    limit: Annotated[int, typer.Option(min=1, help="Number of entries.")] = 100,
    api: Api = None,
    as_json: AsJson = False,
) -> int:
    """List who changed what in the fleet, and why, the newest first."""
    from tunefarm.client import Client

    with Client(api) as client:
        found = client.fleet.changes(limit)
    return print_list(found, CHANGE_HEADINGS, _change_row, empty="no changes", as_json=as_json)


@fleet.command("revoke")
def revoke_edge_device(
    edge_device_id: EdgeDeviceId,
    reason: Annotated[str, typer.Option(help="Why, for the audit log.")] = "",
    api: Api = None,
    as_json: AsJson = False,
) -> int:
    """Revoke the token of a device permanently."""
    from tunefarm.client import Client

    with Client(api) as client:
        device = client.fleet.revoke(edge_device_id, reason)
    return _tell(device, f"{device.edge_device_id} is revoked", api, as_json=as_json)


@fleet.command("move")
def move_edge_device(
    edge_device_id: EdgeDeviceId,
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="Channel to follow.")],
    api: Api = None,
    as_json: AsJson = False,
) -> int:
    """Move a device to another channel. It follows the new channel from its next poll."""
    from tunefarm.client import Client

    with Client(api) as client:
        device = client.fleet.change(edge_device_id, channel=channel)
    return _tell(device, f"{device.edge_device_id} follows {device.channel} from its next poll", api, as_json=as_json)


def _tell(device: EdgeDeviceView, text: str, api: str | None, *, as_json: bool) -> int:
    if as_json:
        print_json(device.model_dump(mode="json"))
    else:
        say(visible_line(text))
        tell_next(f"tunefarm fleet devices --channel {shlex.quote(device.channel)} {with_api(api)}".rstrip())
    return ExitCode.FINE


def _print_summary(summary: FleetSummary) -> None:
    say(f"{counted(summary.devices, 'device')}, {summary.silent} without a poll for a day")
    groups = {
        "channel": summary.by_channel,
        "release": summary.by_release,
        "failure": summary.by_failure,
        "slower than the manifest": summary.drifting,
    }
    rows = [(group, name or "-", str(n)) for group, counts in groups.items() for name, n in sorted(counts.items())]
    if rows:
        print_rows(("by", "value", "devices"), rows, empty="")


def _row(device: EdgeDeviceView) -> tuple[str, ...]:
    return (
        device.edge_device_id,
        device.name,
        device.channel,
        device.running or "-",
        device.failure or "-",
        "revoked" if device.revoked_at else "enrolled",
        device.seen_at[:19],
        device.facts.architecture,
        " ".join(f"{name}={value}" for name, value in sorted(device.labels.items())),
    )


def _latency_row(latency: FieldLatency) -> tuple[str, ...]:
    return (
        latency.release,
        str(latency.devices),
        str(latency.runs),
        latency_text(latency.p50_s),
        latency_text(latency.p50_of_slowest_tenth_s),
        latency_text(latency.p95_s),
        latency_text(latency.p95_of_slowest_tenth_s),
        latency_text(latency.expected_p50_s),
        "-" if latency.median_ratio is None else f"{latency.median_ratio:.3f}",
        str(latency.drifting),
    )


def _change_row(change: FleetChange) -> tuple[str, ...]:
    return change.at[:19], change.token_id or change.actor, change.action, change.subject, change.reason
