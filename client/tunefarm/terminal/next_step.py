"""The closing line of a command: what to do next, ready to be typed.

It goes to standard error, where it is in no program's way, and is left out with ``--json``. What comes from a file or
a service is quoted, for people type these lines into a shell.
"""

import shlex
from pathlib import Path

from tunefarm.terminal.console import complain
from tunefarm_schemas.tuning.artifact import ArtifactManifest
from tunefarm_schemas.visible_text import visible_line


def tell_next(command: str) -> None:
    """Say which command comes next."""
    complain(visible_line(f"next: {command}"))


def at_service(api: str | None) -> str:
    """How a command that also looks at this machine asks the same service."""
    return "--remote" if api is None else with_api(api)


def with_api(api: str | None) -> str:
    """How a command that is about a service names the same one; nothing where it finds it by itself."""
    return "" if api is None else f"--api {shlex.quote(api)}"


def building(record_id: str, place: str = "") -> str:
    """The command that writes the library of a record; ``place`` names the service that has it."""
    return f"tunefarm artifact build {shlex.quote(record_id)} --output tuned {place}".rstrip()


def watching(job_id: str, api: str | None) -> str:
    """The command that shows a job's progress."""
    return f"tunefarm watch {shlex.quote(job_id)} {with_api(api)}".rstrip()


def trying(folder: Path) -> str:
    """The command that runs the artifact in a folder."""
    return f"tunefarm artifact run {shlex.quote(str(folder))}"


def loading(manifest: ArtifactManifest, library: Path) -> str:
    """How a Python program loads the library, on as many threads as it was measured with."""
    code = f"import tvm; kernel = tvm.runtime.load_module({str(library)!r})[{manifest.entry!r}]"
    return f"TVM_NUM_THREADS={manifest.num_cores} python -c {shlex.quote(code)}"
