"""Times builds of a model side by side, in fresh processes that have the device to themselves."""

import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from tunefarm.model.child_call import compiling, exchange
from tunefarm.model.messages import AwaitsTurn
from tunefarm.model.model_folder import LIBRARY_NAME
from tunefarm.model.timing.model_times import TURN_S, ModelTimes, ProcessTimes
from tunefarm.model.timing.timing_child import TIME, BuildsTimed, TimingOrder
from tunefarm_sandbox.channel.channel import ChannelClosed
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_workers.builder.sealed_library import sealed
from tunefarm_workers.timing.host_turn import own_turn

PROCESSES: Final = 3
"""Placement in memory is chosen when a process starts, and a model's time depends on it."""


def times_of_builds(
    fork_server: ForkServer, folders: Sequence[Path], functions_file: Path | None = None
) -> list[ModelTimes]:
    """The times of builds of one model, in the order of ``folders``, whose files were checked.

    Each process loads all builds, waits for its turn at measuring on this host, and times them in turn.
    ``functions_file`` registers the external functions that they call.

    Raises:
        BadInput: a build cannot be loaded or run.
    """
    with ExitStack() as stack:
        libraries = []
        for folder in folders:
            libraries.append(sealed((folder / LIBRARY_NAME).read_bytes()))
            stack.callback(os.close, libraries[-1])
        processes = [_times_in_process(fork_server, folders, libraries, functions_file) for _ in range(PROCESSES)]
    return [ModelTimes.of(times) for times in zip(*processes, strict=True)]


def _times_in_process(
    fork_server: ForkServer, folders: Sequence[Path], libraries: Sequence[int], functions_file: Path | None
) -> tuple[ProcessTimes, ...]:
    own = None if functions_file is None else str(functions_file)
    order = TimingOrder(folders=tuple(map(str, folders)), functions_file=own)
    readable = (*order.folders, *([str(functions_file.parent)] if functions_file else []))
    confinement = Confinement.strict(readable=readable, may_pin_threads=True)
    with compiling(
        fork_server, TIME, order, folder=folders[0], confinement=confinement, descriptors=libraries
    ) as child:
        exchange(child, AwaitsTurn, "loading", has_bytes=False)
        with own_turn(TURN_S):
            with suppress(ChannelClosed):  # it died; reading its answer raises
                child.channel.send(b"go")
            return exchange(child, BuildsTimed, "running", has_bytes=False)[0].times
