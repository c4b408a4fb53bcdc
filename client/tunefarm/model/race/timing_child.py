"""The child that runs one plan of a model, and times it whenever it is asked."""

import os
import time
from collections.abc import Sequence
from typing import Any, Final

from tunefarm.model.loaded_model import CompiledModel, open_model
from tunefarm.model.model_folder import read_model_folder
from tunefarm.model.race.messages import RaceSample, SampleOrder, TimeOrder
from tunefarm.model.race.subnormal_numbers import flush_subnormals
from tunefarm.model.timing.model_runs import Run, callable_functions, fastest_s, run_of, warmed
from tunefarm_sandbox.channel.channel import Channel, ChannelClosed
from tunefarm_sandbox.fork_server.question import answer
from tunefarm_schemas.bad_input import BadInput

_PROFILE_S: Final = 0.12


def main(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry: open the model of a ``TimeOrder``, then answer each ``SampleOrder``. ``descriptors`` is the library."""
    # Random inputs fade to subnormal numbers in deep models, which slow some kernels and not others. A user's do not.
    flush_subnormals()
    try:
        model = _opened(TimeOrder.model_validate_json(payload), *descriptors)
        runs = [run_of(model, entry) for entry in model.manifest.entries]
        entrants, first_s = zip(*map(warmed, runs), strict=True)
    except BadInput as error:
        refused = error
        answer(channel, lambda: _refuse(refused))
        return
    except (RuntimeError, ValueError) as error:  # what a library raises when it runs
        refused = BadInput("library", f"it cannot run the model: {' '.join(str(error).split())[-300:]}", "Omit it.")
        answer(channel, lambda: _refuse(refused))
        return
    channel.send(RaceSample(entries_s=first_s).model_dump_json().encode())
    while True:
        try:
            order = SampleOrder.model_validate_json(channel.receive())
        except ChannelClosed:
            return
        functions_s = _profile(model, runs) if order.is_profile else {}
        entries_s = first_s if order.is_profile else tuple(map(fastest_s, entrants))
        channel.send(RaceSample(entries_s=entries_s, functions_s=functions_s).model_dump_json().encode())


def _refuse(error: BadInput) -> RaceSample:
    raise error


def _opened(order: TimeOrder, library: int) -> CompiledModel:
    files = read_model_folder(order.folder, callable_functions(order.functions, order.functions_file))
    try:
        return open_model(files, library)
    finally:
        os.close(files.weights)


def _profile(model: CompiledModel, runs: Sequence[Run]) -> dict[str, float]:
    """Seconds of the functions of the program: the fastest of some runs, each the mean over its calls in that run."""
    least_s: dict[str, float] = {}
    running: list[float] = []
    taken: dict[str, list[float]] = {}

    def instrument(_function: Any, symbol: str, is_before: bool, _result: Any, *_arguments: Any) -> int:
        if is_before:
            running.append(time.perf_counter())
        else:
            taken.setdefault(symbol, []).append(time.perf_counter() - running.pop())
        return 0

    model.instrument(instrument)
    ends_s, count = time.perf_counter() + _PROFILE_S, 0
    while count < 2 or time.perf_counter() < ends_s:
        taken.clear()
        for run in runs:
            run()
        count += 1
        for symbol, times_s in taken.items():
            mean_s = sum(times_s) / len(times_s)
            least_s[symbol] = min(least_s.get(symbol, mean_s), mean_s)
    return least_s
