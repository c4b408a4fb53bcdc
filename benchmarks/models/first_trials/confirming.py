"""Times the best candidates of a table again, by turns, in a few processes.

A search of 1,000 trials takes an hour, in which a shared machine is faster at some times than at others, and the lowest
of 1,000 latencies is also the luckiest. Times by turns compare.
"""

import json
import os
import signal
import time
import traceback
from collections.abc import Callable
from statistics import median
from typing import Any

import tvm

from benchmarks.models.first_trials.trial_table import ConfirmedTrial, FirstTrialsTable, TableTrial
from benchmarks.store.record_replay_table import random_arguments, seconds_of_call
from tunefarm_schemas.tuning.trace import Sketch, Space
from tunefarm_search.replay.replay_table import trace_with
from tunefarm_search.space.scheduling import Rejected, Scheduler
from tunefarm_search.space.space import SearchSpace, search_space
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import tvm_target
from tunefarm_search.untried.untried_schedule import untried_schedule

OF_FIRST, OF_ALL = 6, 24
"""How many of the fastest of the first trials, and of all, are timed again."""
PROCESSES, ROUNDS = 5, 5
"""Of a process, all rounds have the same pages of memory, which fall into the sets of caches by chance."""


def confirmed(table: FirstTrialsTable, firsts: tuple[int, ...]) -> FirstTrialsTable:
    """The table with new times for the fastest of the first trials of each run and of all trials.

    Raises:
        RuntimeError: the process that times them ended early, as after an error.
    """
    chosen = sorted(
        {
            (run, number)
            for run, search in enumerate(table.runs)
            for first, count in (*((first, OF_FIRST) for first in firsts), (len(search.trials), OF_ALL))
            for number in search.fastest(first, count)
        }
    )
    latencies_s = _in_child(lambda: _times_by_turns(table, chosen))
    times = [
        ConfirmedTrial(run=run, number=number, latency_s=latency_s)
        for (run, number), latency_s in zip(chosen, latencies_s, strict=True)
    ]
    return table.model_copy(update={"confirmed": tuple(times)})


def _times_by_turns(table: FirstTrialsTable, chosen: list[tuple[int, int]]) -> list[float]:
    """The median over processes of each candidate's seconds."""
    space = search_space(load_json(table.module_json), table.target, "stable", Space())
    functions = [_built(space, table, table.runs[run].trials[number]) for run, number in chosen]
    processes = [_in_child(lambda: _rounds(space, functions)) for _ in range(PROCESSES)]
    return [median(times) for times in zip(*processes, strict=True)]


def _rounds(space: SearchSpace, functions: list[Any]) -> list[float]:
    """The median over the rounds of each function's seconds, with tensors of their own."""
    arguments = random_arguments(space)
    for function in functions:
        function(*arguments)
    rounds = [[seconds_of_call(each, arguments, time.perf_counter) for each in functions] for _ in range(ROUNDS)]
    return [median(times) for times in zip(*rounds, strict=True)]


def _in_child(measure: Callable[[], list[float]]) -> list[float]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            latencies_s = measure()
            with os.fdopen(writer, "w") as output:
                json.dump(latencies_s, output)
        except Exception:  # noqa: BLE001 - the parent reports the end of the process
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writer)
    try:
        with os.fdopen(reader) as received:
            text = received.read()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if not text:
        raise RuntimeError("the process that times candidates ended early")
    return [float(each) for each in json.loads(text)]


def _built(space: SearchSpace, table: FirstTrialsTable, trial: TableTrial) -> Any:
    """The function of a trial; a schedule by rule is made again."""
    if trial.sketch is None:
        module = untried_schedule(space.module, table.target).module
    else:
        scheduler = Scheduler(space)
        scheduled = scheduler.replay(trace_with(Sketch(text=table.sketches[trial.sketch]), trial.decisions))
        if isinstance(scheduled, Rejected):
            raise RuntimeError(f"{table.name}: {scheduled.text} This version has another space than the table.")
        module = scheduler.module_of(scheduled.trace)
    return tvm.compile(module, target=tvm_target(table.target))["main"]
