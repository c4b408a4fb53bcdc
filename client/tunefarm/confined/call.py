"""The command's side of a confined call."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError

from tunefarm.confined.answering import Refusal
from tunefarm_sandbox.channel import ChannelClosed
from tunefarm_sandbox.child import Child
from tunefarm_sandbox.confinement import Confinement
from tunefarm_sandbox.fork_server import ForkServer
from tunefarm_sandbox.limits import Limits
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen

Answer = TypeVar("Answer", bound=BaseModel)

TIMEOUT_S: Final = 60.0
LIMITS: Final = Limits(memory_bytes=8 << 30, file_size_bytes=1 << 20, open_files=256)
OUTPUT_CHARACTERS: Final = 1000


def call(
    zygote: ForkServer,
    entry: str,
    request: Frozen,
    answer_type: type[Answer],
    *,
    field: str,
    readable: Sequence[Path] = (),
    timeout_s: float = TIMEOUT_S,
) -> Answer:
    """Run ``entry`` ("package.module:function") in a confined child and return its answer.

    The child may read ``readable`` besides the system and the Python environment, and write nothing.

    Raises:
        BadInput: the child refused the request, crashed or took longer than ``timeout_s``; named after ``field``.
        ForkFailed: there is no child.
    """
    confinement = Confinement.strict(readable=tuple(str(path) for path in readable))
    payload = request.model_dump_json().encode()
    with zygote.fork(entry, payload, limits=LIMITS, confinement=confinement) as child:
        try:
            received = child.channel.receive(timeout_s)
        except ChannelClosed as closed:
            problem = f"the process that read it {_how_it_ended(child)}"
            raise BadInput(field, problem, "Check that it is what this command reads.") from closed
        except TimeoutError as late:
            problem = f"reading it took longer than {timeout_s:g} s."
            raise BadInput(field, problem, "Give one function at a time.") from late
    return _decoded(received, answer_type)


def _how_it_ended(child: Child) -> str:
    ended = child.exit(2.0)
    how = (
        "closed its channel"
        if ended is None
        else f"was {ended.described()}"
        if ended.kind == "signaled"
        else ended.described()
    )
    said = child.output().strip()[-OUTPUT_CHARACTERS:]
    return f"{how}: {said}" if said else f"{how}."


def _decoded(received: bytes, answer_type: type[Answer]) -> Answer:
    try:
        refusal = Refusal.model_validate_json(received)
    except ValidationError:
        return answer_type.model_validate_json(received)
    raise refusal.as_error()
