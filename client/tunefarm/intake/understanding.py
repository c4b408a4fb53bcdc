"""Sends requests to the intake child. Runs in the command or the caller's process, and does not import TVM."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tunefarm.confined.call import call
from tunefarm.intake.intake_request import IntakeAnswer, IntakeRequest
from tunefarm.intake.module_source import JsonSource, PythonSource
from tunefarm_sandbox.fork_server.fork_server import ForkServer

ENTRY: Final = "tunefarm.intake.child:main"
TIMEOUT_S: Final = 300.0


def understand(
    fork_server: ForkServer, request: IntakeRequest, convert: Callable[[], JsonSource] | None = None
) -> IntakeAnswer:
    """Read a module, a target and a space in a confined child. A model is prepared there, which may take a minute.

    ``convert`` calls the frontend of a module that is a torch module or the like; without it, such a module is refused.

    Raises:
        BadInput: any part of the request cannot be tuned.
    """
    answer = _asked(fork_server, request.model_copy(update={"takes_frontends": convert is not None}))
    if convert is None or not answer.is_of_frontend:
        return answer
    converted = _asked(fork_server, request.model_copy(update={"module": convert()}))
    return converted.model_copy(update={"is_of_frontend": True})


def _asked(fork_server: ForkServer, request: IntakeRequest) -> IntakeAnswer:
    readable = readable_folders(request)
    return call(fork_server, ENTRY, request, IntakeAnswer, field="module", readable=readable, timeout_s=TIMEOUT_S)


def readable_folders(request: IntakeRequest) -> tuple[Path, ...]:
    """The folders that the intake child may read: those of the given files, because files import their neighbours."""
    paths = [request.module.path] if isinstance(request.module, PythonSource) else []
    paths += [path for path in (request.functions_file, request.intrinsics_file) if path is not None]
    paths += [
        source.path for source in (request.space, *(seed.function for seed in request.seeds)) if source is not None
    ]
    return tuple(sorted({Path(path).parent for path in paths}))
