"""``tunefarm db``: upgrade, check, clean up, back up and restore the store."""

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from tunefarm.cli.remote_options import AsJson
from tunefarm.terminal.console import say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.next_step import tell_next
from tunefarm.terminal.tables import print_json, print_rows
from tunefarm_schemas.views.quantities import bytes_text

if TYPE_CHECKING:
    from tunefarm.backup.store_backup import BackupReport


database = typer.Typer(help="Maintain the store.", no_args_is_help=True)


@database.command()
def upgrade(
    create: Annotated[bool, typer.Option("--create", help="Create the database if it does not exist.")] = False,
    as_json: AsJson = False,
) -> int:
    """Migrate the database to the schema of this version."""
    from tunefarm.local.store_care import upgrade_store
    from tunefarm_services.settings import Settings

    revision = upgrade_store(Settings(), create=create)
    if as_json:
        print_json({"revision": revision})
    else:
        say(f"the database is at revision {revision}")
        tell_next("tunefarm db check")
    return ExitCode.FINE


@database.command()
def rehash(as_json: AsJson = False) -> int:
    """Recompute the hashes of workloads after an upgrade of TVM. Exits with 2 if one cannot be read."""
    from tunefarm.local.machine import LocalMachine
    from tunefarm.local.store_care import rehash_workloads
    from tunefarm.startup.fork_servers import start_intake_fork_server

    with LocalMachine(fork_server=start_intake_fork_server()) as machine:
        done = rehash_workloads(machine.store.workloads, machine.fork_server)
    if as_json:
        print_json(done.model_dump(mode="json"))
    else:
        for problem in done.refused:
            say(problem)
        say(f"{done.rehashed} workloads have the hashes of TVM {done.tvm_version}, {len(done.refused)} problems")
        tell_next("tunefarm db check")
    return ExitCode.BAD_INPUT if done.refused else ExitCode.FINE


@database.command()
def check(as_json: AsJson = False) -> int:
    """Check the database and every blob. Exits with 2 if anything is damaged."""
    from tunefarm.local.machine import LocalMachine

    with LocalMachine() as machine:
        found = machine.store.inspection.check()
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        for problem in found.problems:
            say(problem)
        say(f"{found.blobs_checked} blobs checked, {len(found.problems)} problems")
        tell_next("tunefarm db restore BACKUP --replace" if found.problems else "tunefarm db stats")
    return ExitCode.BAD_INPUT if found.problems else ExitCode.FINE


@database.command()
def gc(as_json: AsJson = False) -> int:
    """Remove blobs that nothing refers to."""
    from tunefarm.local.machine import LocalMachine

    with LocalMachine() as machine:
        done = machine.store.garbage.collect()
    if as_json:
        print_json(done.model_dump(mode="json"))
    else:
        say(f"{done.removed} blobs removed, {bytes_text(done.freed_bytes)} freed, {done.kept} kept")
        tell_next("tunefarm db stats")
    return ExitCode.FINE


@database.command("prune-releases")
def prune_releases(
    days: Annotated[float, typer.Option(min=0, help="How long to keep a publication after it is replaced.")] = 90.0,
    as_json: AsJson = False,
) -> int:
    """Remove replaced publications of releases and files that only they name, then run gc."""
    from tunefarm.local.machine import LocalMachine

    with LocalMachine() as machine:
        done = machine.store.release_pruning.prune(days)
    if as_json:
        print_json(done.model_dump(mode="json"))
    else:
        say(f"{done.files} files, {done.metadata} metadata and {done.targets} targets removed")
        tell_next("tunefarm db gc")
    return ExitCode.FINE


@database.command()
def stats(
    tenant: Annotated[str | None, typer.Option(help="Tenant to count. Default: all.")] = None,
    as_json: AsJson = False,
) -> int:
    """Count the rows and blobs of the store."""
    from tunefarm.local.machine import LocalMachine

    with LocalMachine() as machine:
        counts = machine.store.inspection.statistics(tenant)
    if as_json:
        print_json(counts.model_dump(mode="json"))
        return ExitCode.FINE
    rows = [(name, str(count)) for name, count in counts.rows.items()]
    rows += [(f"jobs {state}", str(count)) for state, count in counts.jobs_by_state.items()]
    rows += [("blobs", f"{counts.blobs} ({bytes_text(counts.blob_bytes)})"), ("revision", counts.revision)]
    print_rows(("what", "count"), rows, empty="")
    return ExitCode.FINE


@database.command()
def backup(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Archive to write.")],
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite an existing file.")] = False,
    as_json: AsJson = False,
) -> int:
    """Copy the database and its blobs into one file while the store is in use.

    Only its owner can read the file: it contains everything, including the keyed hashes of tokens. Exits with 2, and
    keeps the file, if a blob of the store is damaged.
    """
    from tunefarm.backup.store_backup import back_up
    from tunefarm_services.settings import Settings

    report = back_up(Settings(), file, replace=replace)
    _print_report(report, "backed up", as_json=as_json)
    if not as_json:
        tell_next("tunefarm db check" if report.left_out else f"tunefarm db restore {shlex.quote(str(report.path))}")
    return ExitCode.BAD_INPUT if report.left_out else ExitCode.FINE


@database.command()
def restore(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Archive to read.")],
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite a store that is not empty.")] = False,
    as_json: AsJson = False,
) -> int:
    """Restore the store from a backup. Checks the whole file before changing anything."""
    from tunefarm.backup.store_backup import restore as restore_store
    from tunefarm_services.settings import Settings
    from tunefarm_services.store.database.schema_revision import NEEDED

    report = restore_store(Settings(), file, replace=replace)
    _print_report(report, "restored", as_json=as_json)
    if report.revision != NEEDED and not as_json:
        say(f"the store is at schema revision {report.revision}; this version requires {NEEDED}")
        tell_next("tunefarm db upgrade")
    elif not as_json:
        tell_next("tunefarm db check")
    return ExitCode.FINE


def _print_report(report: "BackupReport", done: str, *, as_json: bool) -> None:
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
