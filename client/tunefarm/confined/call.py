"""Requests of commands to confined children."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_sandbox.fork_server.question import Answer, Fixes, ask
from tunefarm_schemas.frozen import Frozen

TIMEOUT_S: Final = 60.0
LIMITS: Final = Limits(memory_bytes=8 << 30, file_size_bytes=1 << 20, open_files=256)
OUTPUT_CHARACTERS: Final = 1000
FIXES: Final = Fixes(
    too_large="Give one function at a time.",
    ended="Check that it is what this command reads.",
    late="Give one function at a time.",
)


def call(
    fork_server: ForkServer,
    entry: str,
    request: Frozen,
    answer_type: type[Answer],
    *,
    field: str,
    readable: Sequence[Path] = (),
    timeout_s: float = TIMEOUT_S,
    limits: Limits = LIMITS,
    fixes: Fixes = FIXES,
    descriptors: Sequence[int] = (),
) -> Answer:
    """Send a request to a confined child, as ``ask`` does; errors include the output of a child that died."""
    return ask(
        fork_server,
        entry,
        request,
        answer_type,
        field=field,
        fixes=fixes,
        limits=limits,
        timeout_s=timeout_s,
        described=_with_output,
        readable=[str(path) for path in readable],
        descriptors=descriptors,
    )


def _with_output(how: str, output: str) -> str:
    printed = output.strip()[-OUTPUT_CHARACTERS:]
    return f"{how}: {printed}" if printed else f"{how}."
