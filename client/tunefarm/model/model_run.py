"""Runs compiled models in confined children, and the same models by their frameworks."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tunefarm.frontend.relax_model import ModelReference
from tunefarm.frontend.weights_file import Array, write_weights
from tunefarm.model.child_call import compiling, exchange
from tunefarm.model.messages import (
    COMPARE,
    AwaitsTurn,
    Caches,
    CompareOrder,
    ModelCompared,
    exact_name,
    input_name,
    output_name,
)
from tunefarm.model.timing.model_times import TURN_S
from tunefarm_sandbox.channel.channel import ChannelClosed
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_workers.builder.sealed_library import sealed
from tunefarm_workers.timing.host_turn import own_turn


@dataclass(frozen=True)
class Reference:
    """What a model is compared with: a library in sealed memory, or a file of ``write_outputs``.

    ``named`` says whose results they are, as the end of a sentence. ``folder`` has the program and the weights for the
    library if they are not those of the model.
    """

    against: Literal["library", "outputs"]
    descriptor: int
    named: str
    entries: tuple[str, ...] = ()
    is_quantized: bool = False
    folder: Path | None = None


def write_outputs(references: Sequence[ModelReference], descriptor: int) -> Reference:
    """Write what a framework computed to a file, which the caller closes.

    Raises:
        OSError: the file cannot hold it.
    """
    arrays: dict[str, Array] = {}
    for number, each in enumerate(references):
        arrays |= {input_name(number, at): array for at, array in enumerate(each.inputs)}
        arrays |= {output_name(number, at): array for at, array in enumerate(each.outputs)}
        arrays |= {exact_name(number, at): array for at, array in enumerate(each.exact)}
    write_weights(descriptor, arrays)
    return Reference("outputs", descriptor, "its framework's", tuple(each.entry for each in references))


def run_model(
    fork_server: ForkServer,
    folder: Path,
    library: bytes,
    reference: Reference | None = None,
    callees: Sequence[str] = (),
    functions_file: Path | None = None,
    *,
    timed: tuple[Caches, ...] = ("warm", "cold"),
) -> ModelCompared:
    """Run and time the model in ``folder`` in a confined child; compare it with ``reference``.

    ``library`` are its own kernels, which have been checked. ``timed`` says with which caches runs are timed. Timing
    waits for its turn at measuring on this host.

    Raises:
        BadInput: it cannot be loaded or run.
    """
    order = CompareOrder(
        folder=str(folder),
        against=None if reference is None else reference.against,
        entries=() if reference is None else reference.entries,
        is_quantized=reference is not None and reference.is_quantized,
        timed=timed,
        reference_folder=None if reference is None or reference.folder is None else str(reference.folder),
        functions=tuple(callees) if functions_file is None else (),
        functions_file=None if functions_file is None else str(functions_file),
    )
    folders = (folder, None if functions_file is None else functions_file.parent, reference and reference.folder)
    readable = tuple(str(each) for each in folders if each is not None)
    confinement = Confinement.strict(readable=readable, may_pin_threads=True)
    own = sealed(library)
    given = [own, *([] if reference is None else [reference.descriptor])]
    try:
        with compiling(fork_server, COMPARE, order, folder=folder, confinement=confinement, descriptors=given) as child:
            if not timed:
                return exchange(child, ModelCompared, "running", has_bytes=False)[0]
            exchange(child, AwaitsTurn, "running", has_bytes=False)
            with own_turn(TURN_S):
                with suppress(ChannelClosed):  # it died; reading its answer raises
                    child.channel.send(b"go")
                return exchange(child, ModelCompared, "running", has_bytes=False)[0]
    finally:
        os.close(own)
