"""The child that runs one plan of a model, and times it whenever it is asked."""

import os
import time
from collections.abc import Callable
from typing import Any, Final

from tunefarm.intake.user_file import register_functions
from tunefarm.model.loaded_model import CompiledModel, open_model
from tunefarm.model.model_folder import read_model_folder
from tunefarm.model.race.messages import RaceSample, SampleOrder, TimeOrder
from tunefarm.model.random_inputs import random_inputs
from tunefarm_sandbox.channel.channel import Channel, ChannelClosed
from tunefarm_sandbox.fork_server.question import answer
from tunefarm_schemas.bad_input import BadInput

SAMPLE_S: Final = 0.06
MAX_CALLS: Final = 50


def main(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry: open the model of a ``TimeOrder``, then answer each ``SampleOrder``. ``descriptors`` is the library."""
    try:
        model = _opened(TimeOrder.model_validate_json(payload), *descriptors)
        entry = model.manifest.entries[0]
        inputs = random_inputs(entry, 0)
        model(*inputs, entry=entry.name)
    except BadInput as error:
        refused = error
        answer(channel, lambda: _refuse(refused))
        return
    except (RuntimeError, ValueError) as error:  # what a library raises when it runs
        refused = BadInput("library", f"it cannot run the model: {' '.join(str(error).split())[-300:]}", "Omit it.")
        answer(channel, lambda: _refuse(refused))
        return

    def call() -> None:
        model(*inputs, entry=entry.name)

    channel.send(_sample(call, seconds=0.0).model_dump_json().encode())
    while True:
        try:
            order = SampleOrder.model_validate_json(channel.receive())
        except ChannelClosed:
            return
        taken = _profile(model, call) if order.is_profile else _sample(call)
        channel.send(taken.model_dump_json().encode())


def _refuse(error: BadInput) -> RaceSample:
    raise error


def _opened(order: TimeOrder, library: int) -> CompiledModel:
    functions = order.functions
    if order.functions_file is not None:
        functions = (*functions, *register_functions(order.functions_file))
    files = read_model_folder(order.folder, functions)
    try:
        return open_model(files, library)
    finally:
        os.close(files.weights)


def _sample(call: Callable[[], Any], seconds: float = SAMPLE_S) -> RaceSample:
    """The fastest call after one that brings the caches back: other processes only add time."""
    call()
    times_s: list[float] = []
    ends_s = time.perf_counter() + seconds
    while not times_s or (len(times_s) < MAX_CALLS and time.perf_counter() < ends_s):
        began_s = time.perf_counter()
        call()
        times_s.append(time.perf_counter() - began_s)
    return RaceSample(latency_s=min(times_s))


def _profile(model: CompiledModel, call: Callable[[], Any]) -> RaceSample:
    """Times of the functions of the program: the fastest of some runs, each the mean over its calls in that run."""
    fastest_s: dict[str, float] = {}
    running: list[float] = []
    taken: dict[str, list[float]] = {}

    def instrument(_function: Any, symbol: str, is_before: bool, _result: Any, *_arguments: Any) -> int:
        if is_before:
            running.append(time.perf_counter())
        else:
            taken.setdefault(symbol, []).append(time.perf_counter() - running.pop())
        return 0

    sample = _sample(call)
    model.instrument(instrument)
    ends_s, runs = time.perf_counter() + 2 * SAMPLE_S, 0
    while runs < 2 or time.perf_counter() < ends_s:
        taken.clear()
        call()
        runs += 1
        for symbol, times_s in taken.items():
            mean_s = sum(times_s) / len(times_s)
            fastest_s[symbol] = min(fastest_s.get(symbol, mean_s), mean_s)
    return RaceSample(latency_s=sample.latency_s, functions_s=fastest_s)
