"""The child that times builds of one model in turn."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Final

from tunefarm.model.loaded_model import open_model
from tunefarm.model.messages import AwaitsTurn
from tunefarm.model.model_folder import read_model_folder
from tunefarm.model.timing.model_runs import callable_functions, run_of
from tunefarm.model.timing.model_times import ProcessTimes, times_of
from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.fork_server.question import answer
from tunefarm_schemas.frozen import Frozen

TIME: Final = "tunefarm.model.timing.timing_child:main"


class TimingOrder(Frozen):
    """Folders of builds of one model; their libraries are passed in sealed memory, in the same order.

    ``functions_file`` registers the external functions that they call.
    """

    folders: tuple[str, ...]
    functions_file: str | None = None


class BuildsTimed(Frozen):
    """The times of each build, in the order of the folders."""

    times: tuple[ProcessTimes, ...]


def main(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry: load the builds of a ``TimingOrder``, await the turn, and answer with ``BuildsTimed``."""
    order = TimingOrder.model_validate_json(payload)
    answer(channel, lambda: timed(order, descriptors, partial(await_turn, channel)))


def await_turn(channel: Channel) -> None:
    """Tell the parent that timing would begin now, and wait until it has the device."""
    channel.send(AwaitsTurn(awaits_turn=True).model_dump_json().encode())
    channel.receive()


def timed(order: TimingOrder, libraries: list[int], on_ready: Callable[[], None]) -> BuildsTimed:
    """Time all entries of each build on the same random inputs.

    Raises:
        BadInput: one cannot be loaded or run.
    """
    functions = callable_functions((), order.functions_file)
    with ExitStack() as stack:
        models = []
        for folder, library in zip(order.folders, libraries, strict=True):
            files = read_model_folder(folder, functions)
            stack.callback(os.close, files.weights)
            models.append(open_model(files, library))
        entries = models[0].manifest.entries
        runs = [run_of(model, entry) for model in models for entry in entries]
        names = [entry.name for entry in entries]
        for run in runs:
            run()  # pages of the weights are read, and threads start, before others wait
        on_ready()
        times, count = times_of(runs), len(names)
        builds = [times[first : first + count] for first in range(0, len(times), count)]
        return BuildsTimed(times=tuple(ProcessTimes.of_entries(names, each) for each in builds))
