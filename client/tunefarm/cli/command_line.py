"""The ``tunefarm`` command: its entry point and its tree of commands."""

import gc
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from tunefarm.cli.error_reporting import run_at_edge
from tunefarm.startup.missing_extra import missing_extra
from tunefarm.startup.prestarted_fork_server import begin_loading, end_at_once
from tunefarm.terminal.console import say_traceback
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.resume_option import with_resume_value
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.visible_text import visible_line

if TYPE_CHECKING:
    import typer

GARBAGE_THRESHOLD: Final = 50_000
"""Objects between collections. Imports create hundreds of thousands of objects that stay; Python's default of 700
would scan them again and again."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (default: the process's own) and return the exit status."""
    gc.set_threshold(GARBAGE_THRESHOLD)
    sys.excepthook = say_traceback
    words = with_resume_value(list(sys.argv[1:] if arguments is None else arguments))
    # Loading TVM takes longer than everything else here, so it starts before the command line is parsed.
    if any(not is_text(word) for word in words):
        return run_at_edge(lambda: _refuse_bytes(words))
    has_begun = begin_loading(words)
    status = run_at_edge(lambda: _run(words))
    if has_begun:
        run_at_edge(lambda: end_at_once(status))
    return status


def is_text(word: str) -> bool:
    """Whether a word is UTF-8. Python keeps other bytes as lone surrogates, which neither JSON nor a database holds."""
    return not any("\ud800" <= character <= "\udfff" for character in word)


def _refuse_bytes(words: list[str]) -> int:
    word = next(word for word in words if not is_text(word))
    raise BadInput("arguments", f"{word[:200]!r} is not UTF-8.", "Rename the file, or set a UTF-8 locale.")


def _run(words: list[str]) -> int:
    import typer
    from typer.main import get_command

    words = words or ["--help"]
    try:
        status = get_command(application())(args=words, prog_name="tunefarm", standalone_mode=False)
    except typer.Abort:
        return ExitCode.INTERRUPTED
    except ModuleNotFoundError as error:
        raise missing_extra(words[0], error) or error from None
    except Exception as error:
        # Typer's usage errors print themselves.
        if not isinstance(error, SelfShowing):
            raise
        for name, value in vars(error).items():
            if isinstance(value, str):
                setattr(error, name, visible_line(value))  # escape control characters of pasted text
        error.show()
        return error.exit_code
    return int(status or 0)


@runtime_checkable
class SelfShowing(Protocol):
    """A usage error of typer."""

    exit_code: int

    def show(self) -> None:
        """Print usage and error to standard error."""


def application() -> "typer.Typer":
    """The tree of commands."""
    import typer

    from tunefarm.cli.commands.artifact import artifact
    from tunefarm.cli.commands.database import database
    from tunefarm.cli.commands.devices import devices
    from tunefarm.cli.commands.doctor import doctor
    from tunefarm.cli.commands.job_control import cancel, finish, logs, pause, resume, watch
    from tunefarm.cli.commands.jobs import jobs
    from tunefarm.cli.commands.records import records
    from tunefarm.cli.commands.report import report
    from tunefarm.cli.commands.serve import open_pages, serve, tuner
    from tunefarm.cli.commands.submit import submit
    from tunefarm.cli.commands.token import token
    from tunefarm.cli.commands.tune import tune
    from tunefarm.cli.commands.usage import usage
    from tunefarm.cli.commands.worker import worker
    from tunefarm.cli.edge.channel import channel
    from tunefarm.cli.edge.fleet import fleet
    from tunefarm.cli.farm.overview import overview
    from tunefarm.cli.farm.sharing import sharing
    from tunefarm.cli.model.bundle import bundle
    from tunefarm.cli.model.compile import compile_model
    from tunefarm.cli.release.release import release
    from tunefarm.cli.version import common_options

    root = typer.Typer(
        help="Find the fastest schedule of a tensor program, on this machine or on a farm.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    root.callback()(common_options)
    root.command()(tune)
    root.command("compile")(compile_model)
    root.add_typer(records, name="records")
    root.add_typer(artifact, name="artifact")
    root.add_typer(bundle, name="bundle")
    root.add_typer(release, name="release")
    root.command()(report)
    root.command()(doctor)
    root.add_typer(database, name="db")
    root.command()(submit)
    root.add_typer(jobs, name="jobs")
    for one_job in (watch, logs, pause, resume, finish, cancel):
        root.command()(one_job)
    root.add_typer(devices, name="devices")
    root.add_typer(fleet, name="fleet")
    root.add_typer(channel, name="channel")
    root.command()(usage)
    root.command()(overview)
    root.command()(serve)
    root.command("open")(open_pages)
    root.command()(tuner)
    root.add_typer(token, name="token")
    root.add_typer(sharing, name="sharing")
    root.add_typer(worker, name="worker")
    return root


if __name__ == "__main__":
    sys.exit(main())
