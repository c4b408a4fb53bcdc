"""``tunefarm release``: sign what devices of a channel run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from tunefarm.cli.release.release_options import (
    Expires,
    KeepPrevious,
    Keys,
    PassphraseFile,
    Repository,
    folder_of,
    signing_of,
)
from tunefarm.cli.release.roles import channel, init, key, refresh, rotate
from tunefarm.cli.remote_options import Api, AsJson
from tunefarm.terminal.console import complain, say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.tables import print_json, print_rows
from tunefarm_schemas.frozen import JsonValue

if TYPE_CHECKING:
    from tunefarm.http.request import Flow
    from tunefarm_schemas.edge.release import ChannelDocument
    from tunefarm_schemas.views.publication import Published

T = TypeVar("T")

release = typer.Typer(help="Sign releases of bundles for channels of devices.", no_args_is_help=True)
release.add_typer(key, name="key")
release.add_typer(channel, name="channel")
release.command()(init)
release.command()(refresh)
release.command()(rotate)


@release.command()
def publish(
    bundles: Annotated[list[str], typer.Argument(metavar="BUNDLE...", help="Folders, one for each kind of device.")],
    channel: Annotated[str, typer.Option(metavar="NAME", help="The channel.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the release, such as cnn-2.")],
    from_bundle: Annotated[
        list[str], typer.Option(metavar="OLD", help="Older bundle to make patches from; one for each BUNDLE.")
    ] = [],  # noqa: B006 - typer copies it
    gate_stages: Annotated[str | None, typer.Option(metavar="PERCENTS", help="Stages, such as 1,10,50,100.")] = None,
    gate_confidence: Annotated[float | None, typer.Option(help="Confidence that latency is no worse.")] = None,
    gate_tolerance: Annotated[float | None, typer.Option(help="Accepted relative increase of latency.")] = None,
    gate_min_devices: Annotated[int | None, typer.Option(help="Devices of a stage that must report.")] = None,
    gate_deadline: Annotated[str | None, typer.Option(metavar="TIME", help="Time for a stage to report.")] = None,
    gate_max_failed: Annotated[
        float | None, typer.Option(metavar="PERCENT", help="Maximum share of failed devices.")
    ] = None,
    expires: Expires = "90d",
    repository: Repository = ".",
    keys: Keys = [],  # noqa: B006 - typer copies it
    passphrase_file: PassphraseFile = None,
    keep_previous: KeepPrevious = None,
    with_push: Annotated[bool, typer.Option("--push", help="Send the repository to the service afterwards.")] = False,
    api: Api = None,
    as_json: AsJson = False,
) -> int:
    """Make bundles of a model the current release of a channel.

    The release that was current becomes the one to return to; with --push, only if its rollout has finished.
    """
    from tunefarm.release.lifetimes import lifetime_of
    from tunefarm.release.publishing import publish as publish_release

    signing = signing_of(repository, keys, passphrase_file, expires)
    gate = {
        "stages_percent": None if gate_stages is None else gate_stages.split(","),
        "confidence": gate_confidence,
        "tolerance": gate_tolerance,
        "min_devices": gate_min_devices,
        "deadline_s": None if gate_deadline is None else lifetime_of("gate-deadline", gate_deadline).total_seconds(),
        "max_failed_percent": gate_max_failed,
    }
    if keep_previous is None:
        keep_previous = with_push and _is_unfinished(channel, api)
    document = publish_release(
        signing,
        [Path(each) for each in bundles],
        channel=channel,
        name=name,
        from_bundles=[Path(each) for each in from_bundle],
        gate={field: value for field, value in gate.items() if value is not None},
        keeps_previous=keep_previous,
    )
    changes = _pushed(repository, api).changes if with_push else None
    _tell([document], as_json=as_json)
    if changes is not None and not as_json:
        say(changes or "the service has it already")
    return ExitCode.FINE


@release.command()
def promote(
    source: Annotated[str, typer.Argument(metavar="FROM", help="Channel whose current release is taken.")],
    destination: Annotated[str, typer.Argument(metavar="TO", help="Channel that receives it.")],
    keep_previous: KeepPrevious = None,
    expires: Expires = "90d",
    repository: Repository = ".",
    keys: Keys = [],  # noqa: B006 - typer copies it
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
) -> int:
    """Make the current release of one channel that of another."""
    from tunefarm.release.publishing import promote as promote_release

    signing = signing_of(repository, keys, passphrase_file, expires)
    document = promote_release(signing, source, destination, keeps_previous=bool(keep_previous))
    return _tell([document], as_json=as_json)


@release.command("roll-back")
def roll_back(
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="The channel.")],
    expires: Expires = "90d",
    repository: Repository = ".",
    keys: Keys = [],  # noqa: B006 - typer copies it
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
) -> int:
    """Return all devices of a channel to the previous release."""
    from tunefarm.release.publishing import roll_back as return_channel

    return _tell([return_channel(signing_of(repository, keys, passphrase_file, expires), channel)], as_json=as_json)


@release.command()
def revoke(
    name: Annotated[str, typer.Argument(metavar="RELEASE", help="Name of the release.")],
    channels: Annotated[
        list[str], typer.Option("--channel", metavar="NAME", help="Only in this channel. Repeatable.")
    ] = [],  # noqa: B006 - typer copies it
    expires: Expires = "90d",
    repository: Repository = ".",
    keys: Keys = [],  # noqa: B006 - typer copies it
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
) -> int:
    """Forbid a release: no device runs it or returns to it."""
    from tunefarm.release.publishing import revoke as revoke_release

    documents = revoke_release(signing_of(repository, keys, passphrase_file, expires), name, channels)
    return _tell(list(documents.values()), as_json=as_json)


@release.command()
def check(repository: Repository = ".", as_json: AsJson = False) -> int:
    """Verify the repository as a device that trusts its first root does."""
    from tunefarm.release.checking import check as find_problems

    problems = find_problems(folder_of(repository))
    if as_json:
        print_json({"problems": problems})
    for problem in [] if as_json else problems:
        complain(f"tunefarm: repository: {problem}")
    if not problems and not as_json:
        say("every channel verifies")
    return ExitCode.BAD_INPUT if problems else ExitCode.FINE


@release.command()
def prune(
    keep: Annotated[int, typer.Option(min=1, metavar="N", help="Snapshots to keep, including the current one.")] = 10,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
    repository: Repository = ".",
    as_json: AsJson = False,
) -> int:
    """Remove metadata, targets and files that only older snapshots name. Keeps roots and what devices run."""
    from tunefarm.release.pruning import prune as prune_folder
    from tunefarm_schemas.views.quantities import bytes_text

    done = prune_folder(folder_of(repository), keep, dry_run=dry_run)
    if as_json:
        print_json(done.model_dump(mode="json"))
    else:
        what = "would be removed" if dry_run else "removed"
        say(f"{done.files} files, {done.metadata} metadata and {done.targets} targets {what}")
        say(f"  {bytes_text(done.freed_bytes)}")
    return ExitCode.FINE


@release.command()
def status(repository: Repository = ".", as_json: AsJson = False) -> int:
    """Show roles, when their metadata expires, and what channels run."""
    from tunefarm.release.checking import statuses
    from tunefarm.release.release_folder import CHANNEL_ROLE, channel_document
    from tunefarm_schemas.edge.runner_text import utc_text

    folder = folder_of(repository)
    state = folder.state()
    documents = {f"{CHANNEL_ROLE}{each}": channel_document(folder, state, each) for each in state.channels}
    rows, described = [], list[JsonValue]()
    for each in statuses(state):
        document = documents.get(each.role)
        runs = "" if document is None else f"{document.current.name} (sequence {document.sequence})"
        needs = f"{each.threshold} of {len(each.keyids)}"
        rows.append((each.role, str(each.version), utc_text(each.expires), needs, runs))
        described.append(
            {
                "role": each.role,
                "version": each.version,
                "expires": utc_text(each.expires),
                "threshold": each.threshold,
                "keys": list(each.keyids),
                "sequence": None if document is None else document.sequence,
                "current": None if document is None else document.current.name,
            }
        )
    if as_json:
        print_json(described)
    else:
        print_rows(("role", "version", "expires", "keys", "runs"), rows, empty="no roles")
    return ExitCode.FINE


@release.command()
def push(
    repository: Annotated[
        str, typer.Argument(envvar="TUNEFARM_RELEASES", metavar="DIR", help="Folder of the repository.")
    ] = ".",
    api: Api = None,
    as_json: AsJson = False,
) -> int:
    """Send the repository to the service, which verifies it as a device does. An interrupted push resumes."""
    pushed = _pushed(repository, api)
    if as_json:
        print_json(pushed.model_dump(mode="json"))
    else:
        say(pushed.changes or "the service has it already")
    return ExitCode.FINE


@release.command()
def export(
    channel: Annotated[str, typer.Option(metavar="NAME", help="The channel.")],
    to: Annotated[str, typer.Option(metavar="DIR", help="Folder, such as one on a USB stick.")],
    repository: Annotated[
        str, typer.Argument(envvar="TUNEFARM_RELEASES", metavar="DIR", help="Folder of the repository.")
    ] = ".",
) -> int:
    """Copy what devices of one channel need, for devices without a network."""
    from tunefarm.release.export import export as export_channel

    number = export_channel(folder_of(repository), channel, Path(to))
    say(f"{to}: {number} files")
    return ExitCode.FINE


def _pushed(repository: str, api: str | None) -> "Published":
    from tunefarm.release.pushing import push as push_repository

    return _asked(push_repository(folder_of(repository)), api)


def _is_unfinished(channel: str, api: str | None) -> bool:
    """Whether the rollout of a channel's current release has not finished, as far as the token may know."""
    from tunefarm.http.api_error import ApiError
    from tunefarm.http.calls.fleet_calls import channel as channel_call

    try:
        return _asked(channel_call(channel), api).state != "finished"
    except ApiError as error:
        if error.status in (403, 404):
            return False  # the service refuses at the push what must not be returned to
        raise


def _asked(flow: "Flow[T]", api: str | None) -> T:
    from tunefarm.http.retrying import RetryPolicy
    from tunefarm.http.service_address import ClientSettings, service_address
    from tunefarm.http.transport import Transport

    settings = ClientSettings()
    transport = Transport(service_address(api, None, settings), RetryPolicy(patience_s=settings.api_patience_s))
    try:
        return transport.run(flow)
    finally:
        transport.close()


def _tell(documents: "list[ChannelDocument]", *, as_json: bool) -> int:
    if as_json:
        print_json([document.model_dump(mode="json") for document in documents])
        return ExitCode.FINE
    for each in documents:
        forbidden = ", which is revoked" if each.current.name in each.revoked else ""
        before = "none" if each.previous is None else each.previous.name
        say(f"{each.channel}: {each.current.name}{forbidden}, before: {before}, sequence {each.sequence}")
        say(f"  expires {each.expires}")
    return ExitCode.FINE
