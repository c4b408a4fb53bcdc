"""The last line of a command's output: the next command to run.

It is printed to standard error, and omitted with ``--json``. Text from files and services is shell-quoted, because
people copy these lines into a shell.
"""

import shlex
from pathlib import Path

from tunefarm.terminal.console import complain
from tunefarm_schemas.tuning.artifact import ArtifactManifest
from tunefarm_schemas.visible_text import visible_line


def tell_next(command: str) -> None:
    """Print the next command."""
    complain(visible_line(f"next: {command}"))


def at_service(api: str | None) -> str:
    """The option with which a command that defaults to this machine uses the same service."""
    return "--remote" if api is None else with_api(api)


def with_api(api: str | None) -> str:
    """The option that names the same service; empty if commands find it by default."""
    return "" if api is None else f"--api {shlex.quote(api)}"


def building(record_id: str, place: str = "") -> str:
    """The command that writes the library of a record; ``place`` is the option that names its service."""
    return f"tunefarm artifact build {shlex.quote(record_id)} --output tuned {place}".rstrip()


def watching(job_id: str, api: str | None) -> str:
    """The command that follows a job's progress."""
    return f"tunefarm watch {shlex.quote(job_id)} {with_api(api)}".rstrip()


def trying(folder: Path) -> str:
    """The command that runs the artifact in a folder."""
    return f"tunefarm artifact run {shlex.quote(str(folder))}"


def loading(manifest: ArtifactManifest, library: Path) -> str:
    """A command that loads the library in Python, with the number of threads that it was measured with."""
    code = f"import tvm; kernel = tvm.runtime.load_module({str(library)!r})[{manifest.entry!r}]"
    return f"TVM_NUM_THREADS={manifest.num_cores} python -c {shlex.quote(code)}"


def loading_model(folder: Path) -> str:
    """A command that loads a compiled model in Python."""
    code = f"import tunefarm; print(tunefarm.load_model({str(folder)!r}))"
    return f"python -c {shlex.quote(code)}"
