"""Rounds of samples of schedules that are timed side by side: which go on, when they suffice, and what they tell."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil
from statistics import median
from typing import Final, Protocol

from tunefarm_schemas.tuning.measurement import Timing
from tunefarm_workers.timing.calm_samples import is_calm

Rounds = Sequence[Sequence[float]]
"""Of one schedule: the samples of each round that it was in, in seconds."""

PATIENCE: Final = 4
"""How many times the wanted seconds may be spent where samples scatter."""
_MIN_SAMPLES = 5
_ROUNDS_OF_ALL = 2
"""So many rounds all take part in; the further ones are for those that may be the fastest."""
_CLEARLY = 1.03
_SAMPLE_S = 0.001
_ROUND_S = 0.25
_SAMPLES_A_ROUND = 15


class Timer(Protocol):
    """What times the calls of one kernel."""

    def seconds_per_call(self, calls: int) -> float:
        """Mean seconds of ``calls`` calls."""


@dataclass(frozen=True)
class Entrant:
    """A schedule that takes part, in the process that times it. A sample of it is the mean of ``calls`` calls."""

    kernel: object
    """What the timer calls, with the tensors that it is called with: they live as long as this."""
    timer: Timer
    calls: int
    leading: int | None = None
    """How much of its output was computed at samples of it only, as ``SampledFunction`` counts; None for all of it."""

    @classmethod
    def of(cls, kernel: object, timer: Timer) -> "Entrant":
        """With so many calls that a sample takes a millisecond."""
        return cls(kernel, timer, max(1, ceil(_SAMPLE_S / max(timer.seconds_per_call(1), 1e-9))))


def sampled_round(entrants: Sequence[Entrant | None], turn: int, *, by_clock: bool) -> tuple[tuple[float, ...], ...]:
    """A few samples of each in turn; every other round goes backwards. None has no samples.

    For slow kernels a round is short: the next one goes on. It ends by the clock, so that what flushing caches takes
    counts as well, or by the time that calls took, so that what asking a distant device takes does not.
    """
    samples: list[list[float]] = [[] for _ in entrants]
    order = list(range(len(entrants)))[:: -1 if turn % 2 else 1]
    began_s, called_s = time.perf_counter(), 0.0
    for _ in range(_SAMPLES_A_ROUND):
        for index in order:
            entrant = entrants[index]
            if entrant is not None:
                seconds = entrant.timer.seconds_per_call(entrant.calls)
                samples[index].append(seconds)
                called_s += seconds * entrant.calls
        if (time.perf_counter() - began_s if by_clock else called_s) > _ROUND_S:
            break
    return tuple(map(tuple, samples))


def contenders(rounds: Mapping[int, Rounds]) -> list[int]:
    """Which schedules may still be the fastest.

    Out is who was clearly slower than the fastest in each of the first rounds: side by side, that is no accident.
    """
    medians = {index: [median(samples) for samples in own] for index, own in rounds.items()}
    turns = max(map(len, medians.values()), default=0)
    if turns < _ROUNDS_OF_ALL:
        return list(rounds)
    fastest = [min(own[turn] for own in medians.values() if len(own) > turn) for turn in range(turns)]
    return [
        index
        for index, own in medians.items()
        if any(own[turn] <= _CLEARLY * fastest[turn] for turn in range(len(own)))
    ]


def suffice(rounds: Iterable[Rounds], spent_s: float, wanted_s: float) -> bool:
    """Whether no further round is needed after ``spent_s``; samples that scatter are given more time."""
    samples = [tuple(chain.from_iterable(own)) for own in rounds]
    calm = all(len(own) >= _MIN_SAMPLES and is_calm(own) for own in samples)
    return spent_s >= (wanted_s if calm else PATIENCE * wanted_s)


def timing_of(rounds: Rounds, *, is_estimate: bool = False) -> Timing:
    """From all samples; where other work on the host disturbed them, from the calmest rounds."""
    samples = tuple(chain.from_iterable(rounds))
    if not is_calm(samples):
        samples = ()
        for one_round in sorted(rounds, key=median):
            samples = samples if len(samples) >= _MIN_SAMPLES else (*samples, *one_round)
    return Timing(latency_s=median(samples), samples_s=samples, is_estimate=is_estimate)
