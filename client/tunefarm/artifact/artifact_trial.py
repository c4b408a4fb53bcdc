"""Runs an artifact in a confined process, and compares it with its function if the folder contains it."""

import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from tunefarm.confined.artifact_run import ENTRY, ArtifactRunOrder
from tunefarm.startup.fork_servers import start_fork_server
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.artifact import ArtifactManifest
from tunefarm_workers.artifact.example_files import read_examples
from tunefarm_workers.artifact.fresh_process import package_folders
from tunefarm_workers.builder.sealed_library import sealed
from tunefarm_workers.conversation.child_answer import ChildFailed
from tunefarm_workers.lane.artifact_check import check_artifact
from tunefarm_workers.timing.host_turn import own_turn

TIMEOUT_S: Final = 120.0
TURN_S: Final = 10.0
"""How long other processes of the host do not measure: enough to time a kernel of tens of milliseconds."""
LIMITS: Final = Limits(memory_bytes=8 << 30, cpu_s=TIMEOUT_S)
PRINTED_BYTES: Final = 1 << 16
LARGEST_ERROR: Final = 1e300
FIX: Final = "Build it again for this machine: tunefarm artifact build RECORD --output DIR"


class ArtifactTrial(Frozen):
    """The latency in seconds, which is the median of the samples.

    ``worst_error`` is the largest error of the outputs relative to the tolerance; None without a comparison.
    """

    latency_s: float
    samples_s: tuple[float, ...]
    worst_error: float | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether the library's outputs differ from its function's by more than the tolerance."""
        return self.worst_error is not None and not self.worst_error <= 1.0


def try_and_compare(
    manifest: ArtifactManifest, library: Path, module_json: str, callees: Collection[str] = ()
) -> ArtifactTrial:
    """Run an artifact whose manifest has been checked, and compare it with its source function.

    ``callees`` are external functions that both may call.

    Raises:
        BadInput: the library does not load or run here, or the function cannot be compared.
    """
    examples = read_examples(library.parent, manifest.input_specs)
    with start_fork_server() as fork_server:
        try:
            check = check_artifact(fork_server, manifest, module_json, library, LIMITS, examples, callees)
        except ChildFailed as failed:
            message = failed.failure.message
            reason = message.partition(" It wrote: ")[0]
            raise BadInput("folder", f"its library does not run here. {reason} {_last_line(message)}", FIX) from failed
    return ArtifactTrial(
        latency_s=check.timing.latency_s,
        samples_s=check.timing.samples_s,
        worst_error=min(check.worst_error, LARGEST_ERROR),
    )


def try_artifact(folder: Path, library: bytes, callees: Collection[str] = ()) -> ArtifactTrial:
    """Run the artifact in ``folder``, whose manifest has been checked, without a comparison.

    Loads exactly the bytes of ``library``, even if the file changes meanwhile. ``callees`` are external functions that
    it may call.

    Raises:
        BadInput: the library does not load or run here.
    """
    confinement = Confinement(readable=(str(folder), *package_folders()), may_exec=True, may_pin_threads=True)
    order = ArtifactRunOrder(folder=str(folder), callees=tuple(callees)).model_dump_json().encode()
    held = sealed(library)
    try:
        with (
            ForkServer.start(()) as server,
            own_turn(TURN_S),
            server.fork(ENTRY, order, limits=LIMITS, confinement=confinement, descriptors=[held]) as child,
        ):
            ended = child.exit(TIMEOUT_S)
            printed = child.output(PRINTED_BYTES).strip()
    finally:
        os.close(held)
    how = f"took longer than {TIMEOUT_S:g} s" if ended is None else ended.described()
    if ended is None or ended.kind != "exited" or ended.code != 0:
        raise BadInput("folder", f"the process that ran the library {how}. {_last_line(printed)}", FIX)
    return _trial(printed)


def _trial(printed: str) -> ArtifactTrial:
    try:
        return ArtifactTrial.model_validate(json.loads(_last_line(printed)))
    except (ValueError, ValidationError) as error:
        problem = f"the process that ran the library printed no latency: {_last_line(printed)[:200]!r}."
        raise BadInput("folder", problem, "Build it again; do not load it.") from error


def _last_line(text: str) -> str:
    return text.splitlines()[-1] if text else ""
