"""All factorizations of an extent, as a table, with the small steps between them."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

MAX_ROWS = 20_000


@dataclass(frozen=True)
class Factorizations:
    """The rows are all factorizations of ``extent`` into ``levels`` factors that a sampling instruction may decide.

    Attributes:
        rows: shape [count, levels].
        extent: the product of every row.
    """

    extent: int
    rows: IntArray

    @cached_property
    def index(self) -> dict[tuple[int, ...], int]:
        """Row number by row."""
        return {tuple(row): number for number, row in enumerate(self.rows.tolist())}

    @cached_property
    def neighbours(self) -> tuple[IntArray, IntArray]:
        """Rows that differ by one prime moved from one level to another.

        Returns:
            An array [count, limit] of row numbers, of which only the first ``counts[row]`` of each row are valid, and
            ``counts``, shape [count].
        """
        keys = _keys(self.rows, self.extent)
        order = np.argsort(keys, kind="stable")
        found = _moves(self.rows, keys, order, self.extent)
        count = len(self.rows)
        if not found:
            return np.zeros((count, 1), np.int64), np.zeros(count, np.int64)
        moved = np.stack(found, axis=1)
        sorted_first = np.argsort(moved < 0, axis=1, kind="stable")
        return np.take_along_axis(moved, sorted_first, axis=1), (moved >= 0).sum(axis=1)


def factorizations(extent: int, levels: int, max_innermost: int, seed: int = 0) -> Factorizations:
    """Factorizations of ``extent`` with the last factor at most ``max_innermost``.

    If there are more than ``MAX_ROWS``, draws as many at random, spreading each prime evenly over the levels.
    """
    spread = [_compositions(power, levels) for _, power in prime_powers(extent)]
    if math.prod(len(rows) for rows in spread) > MAX_ROWS:
        rows = _drawn(extent, levels, seed)
    else:
        rows = np.ones((1, levels), np.int64)
        for (prime, _), exponents in zip(prime_powers(extent), spread, strict=True):
            rows = (rows[:, None, :] * (prime**exponents)[None, :, :]).reshape(-1, levels)
    allowed = rows[rows[:, -1] <= max_innermost]
    return Factorizations(extent, allowed if len(allowed) else rows[np.argmin(rows[:, -1])][None, :])


def prime_powers(number: int) -> list[tuple[int, int]]:
    """Prime factorization as pairs of a prime and its power, in rising order."""
    found, prime = [], 2
    while number > 1:
        if prime * prime > number:
            prime = number
        power = 0
        while number % prime == 0:
            number //= prime
            power += 1
        if power:
            found.append((prime, power))
        prime += 1
    return found


def _compositions(total: int, parts: int) -> IntArray:
    """All vectors of ``parts`` non-negative numbers with the sum ``total``; shape [count, parts]."""
    if parts == 1:
        return np.array([[total]], np.int64)
    blocks = []
    for first in range(total + 1):
        rest = _compositions(total - first, parts - 1)
        blocks.append(np.concatenate([np.full((len(rest), 1), first, np.int64), rest], axis=1))
    return np.concatenate(blocks)


def _drawn(extent: int, levels: int, seed: int) -> IntArray:
    random = np.random.default_rng(seed)
    rows = np.ones((MAX_ROWS, levels), np.int64)
    for prime, power in prime_powers(extent):
        for _ in range(power):
            rows[np.arange(MAX_ROWS), random.integers(levels, size=MAX_ROWS)] *= prime
    return np.unique(rows, axis=0)


def _keys(rows: IntArray, extent: int) -> IntArray:
    """A unique number for each row: the exponents of the primes at all levels as digits of a mixed radix."""
    keys, weight = np.zeros(len(rows), np.int64), 1
    for prime, power in prime_powers(extent):
        for level in range(rows.shape[1]):
            keys += weight * _exponents(rows[:, level], prime)
            weight *= power + 1
    return keys


def _moves(rows: IntArray, keys: IntArray, order: IntArray, extent: int) -> list[IntArray]:
    """For each prime and pair of levels: the row that each row becomes, or -1."""
    found, weight, levels = [], 1, rows.shape[1]
    sorted_keys = keys[order]
    for prime, power in prime_powers(extent):
        weights = [weight * (power + 1) ** level for level in range(levels)]
        weight *= (power + 1) ** levels
        for source in range(levels):
            movable = rows[:, source] % prime == 0
            for sink in range(levels):
                if sink == source:
                    continue
                wanted = keys - weights[source] + weights[sink]
                place = np.minimum(np.searchsorted(sorted_keys, wanted), len(rows) - 1)
                exists = movable & (sorted_keys[place] == wanted)
                found.append(np.where(exists, order[place], -1))
    return found


def _exponents(numbers: IntArray, prime: int) -> IntArray:
    exponents, rest = np.zeros(len(numbers), np.int64), numbers.copy()
    while True:
        divisible = rest % prime == 0
        if not divisible.any():
            return exponents
        exponents += divisible
        rest = np.where(divisible, rest // prime, rest)
