"""Rounds of samples of schedules that are timed side by side: which go on, when they suffice, and what they tell."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from statistics import median
from typing import Final

from tunefarm_schemas.tuning.measurement import Timing
from tunefarm_workers.timing.sampling import is_calm

Rounds = Sequence[Sequence[float]]
"""Of one schedule: the samples of each round that it was in, in seconds."""

PATIENCE: Final = 4
"""How many times the wanted seconds may be spent where samples scatter."""
_MIN_SAMPLES = 5
_ROUNDS_OF_ALL = 2
"""So many rounds all take part in; the further ones are for those that may be the fastest."""
_CLEARLY = 1.03


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


def timing_of(rounds: Rounds) -> Timing:
    """From all samples; where other work on the host disturbed them, from the calmest rounds."""
    samples = tuple(chain.from_iterable(rounds))
    if not is_calm(samples):
        samples = ()
        for one_round in sorted(rounds, key=median):
            samples = samples if len(samples) >= _MIN_SAMPLES else (*samples, *one_round)
    return Timing(latency_s=median(samples), samples_s=samples)
