"""Programs that read what others wrote, such as compilers and linkers, in confined children."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from tunefarm.model.child_call import compiling, exchange
from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.refusal import Refusal

_INPUT: Final = "input"
_WORK: Final = "work"
Answer = TypeVar("Answer", bound=Frozen)


class ProgramOrder(Frozen):
    """The names of files for a program, and the only folder that its child may write to."""

    names: tuple[str, ...]
    folder: str


def answer_of_program(
    fork_server: ForkServer,
    entry: str,
    order: ProgramOrder,
    files: Mapping[str, bytes],
    answer_type: type[Answer],
    *,
    programs: Sequence[str],
    doing: str,
) -> tuple[Answer, bytes]:
    """What a child answers with ``answer_made``, which is untrusted: its answer, and the bytes that follow it.

    Args:
        fork_server: whose child it is.
        entry: of the child.
        order: its payload, with the names of ``files``.
        files: by their paths.
        answer_type: of its answer.
        programs: folders of programs, besides the system's, that the child may read and run.
        doing: in words.

    Raises:
        BadInput: it refused, ended or took too long.
    """
    own = Path(order.folder)
    for name, content in files.items():
        path = own / _INPUT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    confinement = Confinement.compiler(order.folder).model_copy(update={"programs": tuple(programs)})
    with compiling(fork_server, entry, order, folder=own, confinement=confinement) as child:
        return exchange(child, answer_type, doing)


def answer_made(
    channel: Channel, order: ProgramOrder, make: Callable[[Mapping[str, bytes], Path], tuple[Frozen, bytes]]
) -> None:
    """In the child: answer with what ``make`` makes of the order's files in an empty folder, or why it cannot."""
    own = Path(order.folder)
    # Programs write caches and temporary files there.
    os.environ |= dict.fromkeys(("HOME", "TMPDIR"), order.folder)
    work = own / _WORK
    work.mkdir()
    try:
        answer, contents = make({name: (own / _INPUT / name).read_bytes() for name in order.names}, work)
    except BadInput as error:
        channel.send(Refusal.of(error).model_dump_json().encode())
        return
    channel.send(answer.model_dump_json().encode())
    channel.send(contents)
