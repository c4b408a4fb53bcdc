"""Rounds of samples of schedules that are timed side by side.

1. Each round takes a few samples of every contender in turn, so that disturbances affect all alike.
2. After two rounds, schedules that were clearly slower than the fastest in every round drop out.
3. Rounds end after the wanted time, or after a multiple of it if samples scatter.
"""

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
"""Samples of one schedule, in seconds, for each of its rounds."""

PATIENCE: Final = 4
"""Multiple of the wanted seconds that may be spent if samples scatter."""
_MIN_SAMPLES = 5
_ROUNDS_OF_ALL = 2
"""Rounds in which all take part."""
_CLEARLY_SLOWER = 1.03
_SAMPLE_S = 0.001
_ROUND_S = 0.25
_SAMPLES_A_ROUND = 15


class Timer(Protocol):
    """Times calls of one kernel."""

    def seconds_per_call(self, calls: int) -> float:
        """Return the mean seconds of ``calls`` calls."""


@dataclass(frozen=True)
class Entrant:
    """A schedule in the process that times it. One sample is the mean of ``calls`` calls."""

    kernel: object
    """Owns the function and tensors that the timer uses."""
    timer: Timer
    calls: int
    leading: int | None = None
    """``SampledFunction.leading``, if only samples of its output were computed."""

    @classmethod
    def of(cls, kernel: object, timer: Timer) -> "Entrant":
        """Choose the number of calls so that a sample takes a millisecond."""
        return cls(kernel, timer, max(1, ceil(_SAMPLE_S / max(timer.seconds_per_call(1), 1e-9))))


def sampled_round(entrants: Sequence[Entrant | None], turn: int, *, by_clock: bool) -> tuple[tuple[float, ...], ...]:
    """Take a few samples of each in turn; every other round in reverse order, so that no schedule always runs first.

    A round of slow kernels has fewer samples. Its length is limited ``by_clock``, which includes flushing caches, or by
    the time of the calls alone, which excludes communication with a remote device.
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
    """Return the schedules that may be the fastest: not clearly slower than the fastest in every round."""
    medians = {index: [median(samples) for samples in own] for index, own in rounds.items()}
    turns = max(map(len, medians.values()), default=0)
    if turns < _ROUNDS_OF_ALL:
        return list(rounds)
    fastest = [min(own[turn] for own in medians.values() if len(own) > turn) for turn in range(turns)]
    return [
        index
        for index, own in medians.items()
        if any(own[turn] <= _CLEARLY_SLOWER * fastest[turn] for turn in range(len(own)))
    ]


def suffice(rounds: Iterable[Rounds], spent_s: float, wanted_s: float) -> bool:
    """Whether no further round is needed after ``spent_s``; scattered samples get more time."""
    samples = [tuple(chain.from_iterable(own)) for own in rounds]
    calm = all(len(own) >= _MIN_SAMPLES and is_calm(own) for own in samples)
    return spent_s >= (wanted_s if calm else PATIENCE * wanted_s)


def timing_of(rounds: Rounds, *, is_estimate: bool = False) -> Timing:
    """Compute the latency from all samples or, if they scatter, from the fastest rounds."""
    samples = tuple(chain.from_iterable(rounds))
    if not is_calm(samples):
        samples = ()
        for one_round in sorted(rounds, key=median):
            samples = samples if len(samples) >= _MIN_SAMPLES else (*samples, *one_round)
    return Timing(latency_s=median(samples), samples_s=samples, is_estimate=is_estimate)
