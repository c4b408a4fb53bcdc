"""Estimators of a decision's importance, on synthetic trials whose truth is known.

    python -m benchmarks.store.importance_estimators

The decision is a tile of the extent 512 in four factors; its share of the variance of the latency is given. A fit with
one term for each tile is compared, plain (eta squared) and corrected (epsilon squared), with the fit of the factors.
"""

import math
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from itertools import product
from typing import Final, TypeAlias

from benchmarks.report.markdown_table import table
from tunefarm_services.space.importance import importance

Tile: TypeAlias = tuple[int, ...]

EXTENT, LEVELS, LARGEST_INNERMOST = 512, 4, 64
REPEATS: Final = 200
_POWERS: Final = range(EXTENT.bit_length())
TILES: Final = [
    tuple(2**power for power in powers)
    for powers in product(_POWERS, repeat=LEVELS)
    if sum(powers) == EXTENT.bit_length() - 1 and 2 ** powers[-1] <= LARGEST_INNERMOST
]


def main() -> int:
    """Print a table: mean and standard deviation of each estimate, and how often the interval holds the truth."""
    rows = [_row(random.Random(1), trials, truth) for truth in (0.0, 0.5) for trials in (100, 300, 1000)]
    head = ["truth", "trials", "eta squared", "epsilon squared", "fit of the factors", "interval holds the truth"]
    print(f"{len(TILES)} tiles, {REPEATS} repeats")
    print("\n".join(table(head, rows)))
    return 0


def _row(chance: random.Random, trials: int, truth: float) -> list[str]:
    plain, corrected, fitted, hits = [], [], [], 0
    for _ in range(REPEATS):
        tiles, latencies = _trials(chance, trials, truth)
        plain.append(_of_whole_tiles(tiles, latencies, is_corrected=False))
        corrected.append(_of_whole_tiles(tiles, latencies, is_corrected=True))
        found = importance(tiles, latencies)
        assert found is not None
        fitted.append(found.share)
        hits += found.low <= truth <= found.high
    estimates = [_mean_text(each) for each in (plain, corrected, fitted)]
    return [f"{truth:g}", str(trials), *estimates, f"{hits / REPEATS:.0%}"]


def _trials(chance: random.Random, count: int, truth: float) -> tuple[list[Tile], list[float]]:
    """Tiles, and logarithms of latencies of which the ratio of two factors explains the share ``truth``."""
    tiles = [chance.choice(TILES) for _ in range(count)]
    signal = [math.log2(tile[3] / tile[1]) for tile in tiles]
    mean, spread = statistics.fmean(signal), statistics.pstdev(signal)
    weight, noise = math.sqrt(truth), math.sqrt(1.0 - truth)
    return tiles, [weight * (value - mean) / spread + noise * chance.gauss(0.0, 1.0) for value in signal]


def _of_whole_tiles(tiles: Sequence[Tile], latencies: Sequence[float], *, is_corrected: bool) -> float:
    groups: defaultdict[Tile, list[float]] = defaultdict(list)
    for tile, latency in zip(tiles, latencies, strict=True):
        groups[tile].append(latency)
    trials = len(latencies)
    within = sum(statistics.pvariance(group) * len(group) for group in groups.values()) / trials
    unexplained = within / statistics.pvariance(latencies)
    return 1.0 - unexplained * ((trials - 1) / (trials - len(groups)) if is_corrected else 1.0)


def _mean_text(values: Sequence[float]) -> str:
    return f"{statistics.fmean(values):.2f} ± {statistics.stdev(values):.2f}"


if __name__ == "__main__":
    sys.exit(main())
