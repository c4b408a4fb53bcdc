"""``tunefarm release``: keys, roles, and their rotation."""

from pathlib import Path
from typing import Annotated

import typer

from tunefarm.cli.release.release_options import Keys, PassphraseFile, Repository, signing_of
from tunefarm.cli.remote_options import AsJson
from tunefarm.terminal.console import say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.tables import print_json, print_rows
from tunefarm_schemas.bad_input import BadInput

key = typer.Typer(help="Make keys.", no_args_is_help=True)
channel = typer.Typer(help="Make channels.", no_args_is_help=True)


@key.command("new")
def new_key(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="New files, such as root.pem.")],
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
) -> int:
    """Make Ed25519 keys, each in a file that only its owner can read (PEM, PKCS#8)."""
    from tunefarm.release.keys import make_key, read_passphrase

    passphrase = read_passphrase(None if passphrase_file is None else Path(passphrase_file))
    made = [(name, make_key(Path(name), passphrase)) for name in files]
    if as_json:
        print_json([{"file": name, "key_id": each.keyid, "public": each.keyval["public"]} for name, each in made])
        return ExitCode.FINE
    print_rows(("file", "public key"), [(name, each.keyval["public"]) for name, each in made], empty="no keys")
    return ExitCode.FINE


@channel.command("new")
def new_channel(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the channel, such as stable.")],
    channel_key: Annotated[str, typer.Option("--key", metavar="FILE", help="The key of the channel.")],
    repository: Repository = ".",
    passphrase_file: PassphraseFile = None,
) -> int:
    """Delegate a channel to a key. This requires the key of the role targets."""
    from tunefarm.release.roles import make_channel

    make_channel(signing_of(repository, [], passphrase_file), name, channel_key)
    say(f"{name}: nothing published yet")
    return ExitCode.FINE


def init(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A new folder.")],
    root_key: Annotated[
        list[str], typer.Option(metavar="FILE", help="Key of the root, kept offline. Repeatable.")
    ] = [],  # noqa: B006 - typer copies it
    targets_key: Annotated[list[str], typer.Option(metavar="FILE", help="Key that makes channels. Repeatable.")] = [],  # noqa: B006
    online_key: Annotated[
        list[str], typer.Option(metavar="FILE", help="Key of snapshot and timestamp. Repeatable.")
    ] = [],  # noqa: B006
    new_keys: Annotated[str | None, typer.Option(metavar="DIR", help="Make new keys in this folder.")] = None,
    channel_name: Annotated[
        str | None, typer.Option("--channel", metavar="NAME", help="With --new-keys: a first channel.")
    ] = None,
    threshold: Annotated[int, typer.Option(metavar="N", help="Number of keys that must sign a new root.")] = 1,
    passphrase_file: PassphraseFile = None,
) -> int:
    """Create a repository. Install its metadata/1.root.json on devices: they trust what it signs."""
    from tunefarm.release.keys import make_keys, read_passphrase
    from tunefarm.release.roles import make_channel, make_repository, require_name

    signing = signing_of(folder, [], passphrase_file)
    _require_keys(root_key, targets_key, online_key, new_keys, channel_name)
    if new_keys is None:
        make_repository(signing, root_key, targets_key, online_key, threshold)
    else:
        if signing.folder.exists:
            raise BadInput("folder", f"{signing.folder.path} is a repository.", "Choose a new folder.")
        if threshold != 1:
            raise BadInput("threshold", "--new-keys makes one key a role.", "Make more: tunefarm release key new")
        if channel_name is not None:
            require_name("channel", channel_name)
        passphrase = read_passphrase(None if passphrase_file is None else Path(passphrase_file))
        made = make_keys(Path(new_keys), signing.folder.path, channel_name, passphrase)
        make_repository(signing, [made.root], [made.targets], [made.online], threshold)
        if channel_name is not None and made.channel is not None:
            make_channel(signing_of(folder, [], passphrase_file), channel_name, made.channel)
    say(signing.folder.path / "metadata" / "1.root.json")
    return ExitCode.FINE


def _require_keys(
    root: list[str], targets: list[str], online: list[str], new_keys: str | None, channel_name: str | None
) -> None:
    given = {"root_key": root, "targets_key": targets, "online_key": online}
    if new_keys is not None and any(given.values()):
        raise BadInput("new_keys", "Other keys are given as well.", "Give either --new-keys or a key for each role.")
    if new_keys is None and channel_name is not None:
        raise BadInput("channel", "Its key is missing.", "Add --new-keys DIR, or: tunefarm release channel new")
    missing = next((name for name, keys in given.items() if not keys), None)
    if new_keys is None and missing is not None:
        raise BadInput(missing, "A key is missing.", "Give a key for each role, or make some: --new-keys DIR")


def refresh(repository: Repository = ".", keys: Keys = [], passphrase_file: PassphraseFile = None) -> int:  # noqa: B006
    """Sign the timestamp again, and the snapshot once half of its lifetime has passed. Run it daily."""
    from tunefarm.release.roles import refresh as refresh_roles

    did_snapshot = refresh_roles(signing_of(repository, keys, passphrase_file))
    say("snapshot and timestamp signed" if did_snapshot else "timestamp signed")
    return ExitCode.FINE


def rotate(
    role: Annotated[
        str, typer.Argument(metavar="ROLE", help="root, targets, online, snapshot, timestamp or channel-NAME.")
    ],
    old: Annotated[list[str], typer.Option(metavar="KEYID", help="Key to revoke, or the beginning of its id.")] = [],  # noqa: B006 - typer copies it
    new: Annotated[list[str], typer.Option(metavar="FILE", help="Key to trust.")] = [],  # noqa: B006
    threshold: Annotated[int | None, typer.Option(metavar="N", help="Number of its keys that must sign.")] = None,
    repository: Repository = ".",
    keys: Keys = [],  # noqa: B006 - typer copies it
    passphrase_file: PassphraseFile = None,
) -> int:
    """Replace, add or revoke keys of a role. Without options, sign a role's metadata again."""
    from tunefarm.release.rotation import rotate as rotate_role

    rotate_role(signing_of(repository, keys, passphrase_file), role, old, new, threshold)
    say(f"{role} rotated")
    return ExitCode.FINE
