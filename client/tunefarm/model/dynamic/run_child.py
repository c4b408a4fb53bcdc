"""The child that runs models with dynamic dimensions: it times entries, and tests what padding changes."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from tunefarm.frontend.random_inputs import random_inputs
from tunefarm.intake.user_file import register_functions
from tunefarm.model.dynamic.messages import EntryTimes, PaddingChecked, RunOrder
from tunefarm.model.dynamic.padding_test import PaddingTest
from tunefarm.model.loaded_model import CompiledModel, open_model
from tunefarm.model.model_folder import read_model_folder
from tunefarm.model.relative_error import relative_error
from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.fork_server.question import answer

_TIMED_S = 2.0
_MIN_ROUNDS = 5
_MAX_ROUNDS = 50


def times(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry: answer one ``RunOrder`` with ``EntryTimes``."""
    answer(channel, lambda: _times(RunOrder.model_validate_json(payload), descriptors[0]))


def padding(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry: answer one ``RunOrder`` with ``PaddingChecked``."""
    answer(channel, lambda: _padding(RunOrder.model_validate_json(payload), descriptors))


def _times(order: RunOrder, library: int) -> EntryTimes:
    with _opened(order, order.folder, library) as model:
        entries = model.manifest.entries
        inputs = [random_inputs(entry, 0) for entry in entries]
        least = [float("inf")] * len(entries)
        ends_s = time.perf_counter() + _TIMED_S
        for done in range(_MAX_ROUNDS + 1):
            for at, entry in enumerate(entries):
                began_s = time.perf_counter()
                model(*inputs[at], entry=entry.name)
                took_s = time.perf_counter() - began_s
                least[at] = min(least[at], took_s) if done else least[at]  # the first call warms up
            if done >= _MIN_ROUNDS and time.perf_counter() > ends_s:
                break
    return EntryTimes(latencies_s=tuple(least))


def _padding(order: RunOrder, libraries: Sequence[int]) -> PaddingChecked:
    with _opened(order, order.folder, libraries[0]) as model:
        error = partial(relative_error, is_quantized=order.is_quantized)
        if order.probe is None:
            return PaddingTest(model, None, error).run()
        with _opened(order, order.probe, libraries[1]) as probe:
            return PaddingTest(model, probe, error).run()


@contextmanager
def _opened(order: RunOrder, folder: str, library: int) -> Iterator[CompiledModel]:
    functions = order.functions
    if order.functions_file is not None:
        functions = (*functions, *register_functions(order.functions_file))
    files = read_model_folder(folder, functions)
    try:
        yield open_model(files, library)
    finally:
        os.close(files.weights)
