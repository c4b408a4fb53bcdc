"""Opens compiled models in the children that time them, and times their runs as users call them."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Final

from tunefarm.artifact.aligned_memory import aligned_copy
from tunefarm.frontend.random_inputs import random_inputs
from tunefarm.intake.user_file import register_functions
from tunefarm.model.loaded_model import CompiledModel
from tunefarm_schemas.tuning.model import ModelEntry
from tunefarm_workers.timing.interleaved_timing import Entrant, sampled_round

SLOW_S: Final = 1.0
"""A first run that takes longer counts as a warm one: what it does once takes less, and a second run costs as much."""

Run = Callable[[], object]


@dataclass(frozen=True)
class WarmRuns:
    """Times runs one after the other."""

    run: Run

    def seconds_per_call(self, calls: int) -> float:
        """The mean seconds of ``calls`` runs."""
        began_s = time.perf_counter()
        for _ in range(calls):
            self.run()
        return (time.perf_counter() - began_s) / calls


def callable_functions(functions: Collection[str], functions_file: str | None) -> tuple[str, ...]:
    """The external functions that a model may call: ``functions``, and those that the file registers."""
    return (*functions, *(() if functions_file is None else register_functions(functions_file)))


def run_of(model: CompiledModel, entry: ModelEntry | None = None) -> Run:
    """One run of an entry, the first by default, on random inputs, as its users call it, with no input to copy."""
    chosen = entry or model.manifest.entries[0]
    return partial(model, *map(aligned_copy, random_inputs(chosen, 0)), entry=chosen.name)


def warmed(run: Run) -> tuple[Entrant, float]:
    """A run for ``fastest_s``, after it ran once or a few times, and the seconds of a run.

    Pages of the weights are read, and threads started.
    """
    timer = WarmRuns(run)
    first_s = timer.seconds_per_call(1)
    if first_s > SLOW_S:
        return Entrant(run, timer, 1), first_s
    return Entrant.of(run, timer), timer.seconds_per_call(1)


def fastest_s(entrant: Entrant) -> float:
    """The fastest sample of one round, in seconds per run: other processes only add time."""
    (samples_s,) = sampled_round([entrant], 0, by_clock=True)
    return min(samples_s)
