"""Runs one rival: loads the model, compares its outputs with torch's, then times a sample for each line that it reads.

Reads a ``ProcessOrder`` and prints a ``RivalReady``; then prints a ``RivalSample`` for each empty line. All
are lines of JSON.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy

from benchmarks.models.agreement import worst_error
from tunefarm_schemas.frozen import Frozen

INPUTS = 3
SLOW_S = 10.0
"""A call that takes longer is the only one: it is compared with torch, and its time is the sample."""
WARM_UP_S = 0.5
MIN_SAMPLE_S = 0.1
MAX_CALLS = 1000


class ProcessOrder(Frozen):
    """What to run: names of the zoo or of an operator, and of the rival, folders as in ``RivalProcessOrder``."""

    model: str
    tiny: bool
    rival: str
    files: str
    artifact: str | None
    threads: int


class RivalReady(Frozen):
    """What a rival gave before it was timed.

    Attributes:
        setup_s: seconds to import the framework, and to load or compile the model.
        first_call_s: seconds of the first call.
        error: the worst relative error of its outputs.
        compared: with how many inputs.
        once: the first call was so slow that it is the only one.
    """

    setup_s: float
    first_call_s: float
    error: float
    compared: int
    once: bool


class RivalSample(Frozen):
    """The mean time of some calls in a row."""

    call_s: float
    calls: int


def main() -> None:
    """Serve the parent until it closes the pipe."""
    order = ProcessOrder.model_validate_json(sys.stdin.readline())
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # frameworks print
    call, ready = _open(order)
    calls = 0 if ready.once else _calls(call)
    # Only now: the parent stops this process then, and the time that it is stopped would count as that of a call.
    print(ready.model_dump_json(), file=answers, flush=True)
    for _line in sys.stdin:
        print(_sample(call, calls).model_dump_json(), file=answers, flush=True)


def _open(order: ProcessOrder) -> tuple[Any, RivalReady]:
    expected = _expected(order)
    started_s = time.perf_counter()
    from benchmarks.models.rivals import RIVALS, RivalProcessOrder

    model = _model(order)
    artifact = None if order.artifact is None else Path(order.artifact)
    rival = RIVALS[order.rival](RivalProcessOrder(model, Path(order.files), artifact, order.threads))
    setup_s = time.perf_counter() - started_s
    first = rival.bind(model.inputs(0))
    started_s = time.perf_counter()
    outputs = first()
    first_call_s = time.perf_counter() - started_s
    errors = [worst_error(rival.arrays(outputs), expected[0])]
    once = first_call_s > SLOW_S
    errors.extend(
        worst_error(rival.arrays(rival.bind(model.inputs(number))()), expected[number])
        for number in range(1, 1 if once else INPUTS)
    )
    ready = RivalReady(setup_s=setup_s, first_call_s=first_call_s, error=max(errors), compared=len(errors), once=once)
    return first, ready


def _model(order: ProcessOrder) -> Any:
    from benchmarks.models.operators.operator_cases import OPERATORS
    from benchmarks.models.zoo import RELATIVES, TINY_ZOO, ZOO

    return (TINY_ZOO if order.tiny else {**ZOO, **RELATIVES, **OPERATORS})[order.model]


def expected_path(files: Path, model: str, number: int) -> Path:
    """Where torch's outputs for some inputs are."""
    return files / f"{model}.expected-{number}.npz"


def _expected(order: ProcessOrder) -> list[list[Any]]:
    found = []
    for number in range(INPUTS):
        with numpy.load(expected_path(Path(order.files), order.model, number)) as arrays:
            found.append([arrays[f"arr_{index}"] for index in range(len(arrays.files))])
    return found


def _calls(call: Any) -> int:
    """Warm up, and choose how many calls make a sample."""
    started_s, done = time.perf_counter(), 0
    while done < 2 or time.perf_counter() - started_s < WARM_UP_S:
        call()
        done += 1
    each_s = (time.perf_counter() - started_s) / done
    return max(1, min(MAX_CALLS, round(MIN_SAMPLE_S / each_s)))


def _sample(call: Any, calls: int) -> RivalSample:
    call()  # brings the caches back after the others' turns
    started_s = time.perf_counter()
    for _ in range(calls):
        call()
    return RivalSample(call_s=(time.perf_counter() - started_s) / calls, calls=calls)


if __name__ == "__main__":
    main()
