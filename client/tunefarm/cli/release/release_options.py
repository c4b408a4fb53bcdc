"""Options of commands that sign releases."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tunefarm.release.release_folder import ReleaseFolder
    from tunefarm.release.signing import Signing

Repository = Annotated[
    str,
    typer.Option(envvar="TUNEFARM_RELEASES", metavar="DIR", help="Folder of the repository."),
]
Keys = Annotated[
    list[str],
    typer.Option(
        "--key", metavar="FILE", help="Key file or hsm: URI, in addition to the keys in keys.json. Repeatable."
    ),
]
PassphraseFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="File whose first line is the passphrase of keys, or a token's PIN.")
]
Expires = Annotated[str, typer.Option(metavar="TIME", help="How long devices accept the document, such as 90d or 12h.")]

KeepPrevious = Annotated[
    bool | None,
    typer.Option(
        "--keep-previous/--replace-previous",
        help="Whether devices return to the previous release and not to the current one.",
    ),
]


def folder_of(repository: str) -> "ReleaseFolder":
    """The folder of the repository."""
    from tunefarm.release.release_folder import ReleaseFolder

    return ReleaseFolder(Path(repository))


def signing_of(repository: str, keys: list[str], passphrase_file: str | None, expires: str | None = None) -> "Signing":
    """What a command signs with. Raises BadInput."""
    from tunefarm.release.key_ring import KeyRing
    from tunefarm.release.keys import read_passphrase
    from tunefarm.release.lifetimes import Lifetimes, lifetime_of
    from tunefarm.release.signing import Signing

    folder = folder_of(repository)
    passphrase = read_passphrase(None if passphrase_file is None else Path(passphrase_file))
    lifetimes = Lifetimes() if expires is None else Lifetimes(channel=lifetime_of("expires", expires))
    return Signing(folder, KeyRing.of(folder, keys, passphrase), lifetimes=lifetimes)
