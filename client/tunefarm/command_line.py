"""The ``tunefarm`` command: its entry, its tree of commands, and the one place where errors become exit statuses."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from tunefarm.early_zygote import begin_loading, end_without_waiting
from tunefarm.exit_code import ExitCode
from tunefarm.exit_edge import run_at_edge
from tunefarm.resume_option import with_resume_value

if TYPE_CHECKING:
    import typer


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (the process's own when None) and return the exit status."""
    words = with_resume_value(list(sys.argv[1:] if arguments is None else arguments))
    # Loading TVM takes longer than everything else here, so it begins before the command is even understood.
    begin_loading(words)
    status = run_at_edge(lambda: _run(words))
    end_without_waiting(status)
    return status


def _run(words: list[str]) -> int:
    import typer
    from typer.main import get_command

    try:
        status = get_command(application())(args=words, prog_name="tunefarm", standalone_mode=False)
    except typer.Abort:
        return ExitCode.INTERRUPTED
    except Exception as error:
        # Typer's own errors, and only they, know how to show themselves.
        if not isinstance(error, SelfShowing):
            raise
        error.show()
        return error.exit_code
    return int(status or 0)


@runtime_checkable
class SelfShowing(Protocol):
    """An error of usage, as typer raises it."""

    exit_code: int

    def show(self) -> None:
        """Print usage and error to standard error."""


def application() -> "typer.Typer":
    """The tree of commands."""
    import typer

    from tunefarm.commands.artifact import artifact
    from tunefarm.commands.database import database
    from tunefarm.commands.doctor import doctor
    from tunefarm.commands.records import records
    from tunefarm.commands.report import report
    from tunefarm.commands.tune import tune

    root = typer.Typer(
        help="Find the fastest schedule of a tensor program on this machine.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
    )
    root.command()(tune)
    root.add_typer(records, name="records")
    root.add_typer(artifact, name="artifact")
    root.command()(report)
    root.command()(doctor)
    root.add_typer(database, name="db")
    return root


if __name__ == "__main__":
    sys.exit(main())
