"""``tunefarm db backup`` and ``tunefarm db restore``."""

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from tunefarm.cli.console import say
from tunefarm.cli.exit_code import ExitCode
from tunefarm.cli.next_step import tell_next
from tunefarm.cli.text.quantities import bytes_text
from tunefarm.cli.text.tables import print_json

if TYPE_CHECKING:
    from tunefarm.backup.store_backup import BackupReport

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def backup(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Archive to write.")],
    replace: Annotated[bool, typer.Option("--replace", help="Take the place of a file of that name.")] = False,
    as_json: AsJson = False,
) -> int:
    """Copy the database and its blobs into one file, while others may be working.

    The file can be read by its owner only: who has it has everything, the keyed hashes of tokens included. Exits with
    2, and keeps the file, when a blob of the store is damaged.
    """
    from tunefarm.backup.store_backup import back_up
    from tunefarm_services.settings import Settings

    report = back_up(Settings(), file, replace=replace)
    _tell(report, "backed up", as_json=as_json)
    if not as_json:
        tell_next("tunefarm db check" if report.left_out else f"tunefarm db restore {shlex.quote(str(report.path))}")
    return ExitCode.BAD_INPUT if report.left_out else ExitCode.FINE


def restore(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Archive to read.")],
    replace: Annotated[bool, typer.Option("--replace", help="Lose what the store holds now.")] = False,
    as_json: AsJson = False,
) -> int:
    """Make the store what a backup holds. Everything in the file is checked before anything is changed."""
    from tunefarm.backup.store_backup import restore as restore_store
    from tunefarm_services.settings import Settings
    from tunefarm_services.store.database.schema_revision import NEEDED

    report = restore_store(Settings(), file, replace=replace)
    _tell(report, "restored", as_json=as_json)
    if report.revision != NEEDED and not as_json:
        say(f"it is at schema revision {report.revision}, this version needs {NEEDED}")
        tell_next("tunefarm db upgrade")
    elif not as_json:
        tell_next("tunefarm db check")
    return ExitCode.FINE


def _tell(report: "BackupReport", done: str, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "file": str(report.path),
                "revision": report.revision,
                "blobs": report.blobs,
                "size_bytes": report.size_bytes,
                "left_out": list(report.left_out),
            }
        )
        return
    for problem in report.left_out:
        say(f"left out: {problem}")
    size = bytes_text(report.size_bytes)
    say(f"{done}: the database at revision {report.revision} and {report.blobs} blobs, {report.path}, {size}")
