"""An artifact on trial: a fresh confined process that loads the library and times it."""

import json
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from tunefarm.confined.artifact_run import ENTRY, ArtifactRunOrder
from tunefarm_sandbox.confinement import Confinement
from tunefarm_sandbox.fork_server import ForkServer
from tunefarm_sandbox.limits import Limits
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_workers.fresh_process import package_folders

TIMEOUT_S: Final = 120.0
LIMITS: Final = Limits(memory_bytes=8 << 30, cpu_s=TIMEOUT_S)
PRINTED_BYTES: Final = 1 << 16


class ArtifactTrial(Frozen):
    """Latency in seconds, and the samples that it is the median of."""

    latency_s: float
    samples_s: tuple[float, ...]


def try_artifact(folder: Path) -> ArtifactTrial:
    """Run the artifact in ``folder``, whose manifest has been checked.

    Raises:
        BadInput: the library does not load or run here; the problem says how it ended.
    """
    confinement = Confinement(readable=(str(folder), *package_folders()), may_exec=True)
    order = ArtifactRunOrder(folder=str(folder)).model_dump_json().encode()
    with ForkServer.start(()) as server, server.fork(ENTRY, order, limits=LIMITS, confinement=confinement) as child:
        ended = child.exit(TIMEOUT_S)
        printed = child.output(PRINTED_BYTES).strip()
    how = f"took longer than {TIMEOUT_S:g} s" if ended is None else ended.described()
    if ended is None or ended.kind != "exited" or ended.code != 0:
        fix = "Build it again for this machine: tunefarm artifact build RECORD --output DIR"
        raise BadInput("folder", f"the process that ran the library {how}. {_last_line(printed)}", fix)
    return _trial(printed)


def _trial(printed: str) -> ArtifactTrial:
    try:
        return ArtifactTrial.model_validate(json.loads(_last_line(printed)))
    except (ValueError, ValidationError) as error:
        problem = f"the process that ran the library printed no latency: {_last_line(printed)[:200]!r}."
        raise BadInput("folder", problem, "Build it again; do not load it.") from error


def _last_line(text: str) -> str:
    return text.splitlines()[-1] if text else ""
