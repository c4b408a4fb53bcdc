"""Ratios with confidence intervals."""

from collections.abc import Sequence

import numpy

from tunefarm_schemas.frozen import Frozen

RESAMPLES = 4000
LEVEL = 0.95


class Ratio(Frozen):
    """A geometric mean of ratios with its 95% bootstrap interval."""

    mean: float
    low: float
    high: float


def ratio_over(workloads: Sequence[Sequence[Sequence[float]]], *, seed: int = 0) -> Ratio:
    """Geometric mean over workloads of the geometric mean over seeds of each seed's median sample.

    ``workloads[w][s]`` contains the sampled ratios of workload w with seed s: one for a wall time, one per round for
    interleaved latencies. The interval is a percentile bootstrap (Efron and Tibshirani 1993, chapter 13) that resamples
    seeds within each workload and rounds within each seed. Workloads are a fixed suite and are not resampled. With a
    single seed and sample, the interval is the mean itself.
    """
    generator = numpy.random.default_rng(seed)
    drawn = numpy.mean([_resampled_logarithms(seeds, generator) for seeds in workloads], axis=0)
    low, high = numpy.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    mean = numpy.mean([numpy.mean([numpy.log(numpy.median(samples)) for samples in seeds]) for seeds in workloads])
    return Ratio(mean=float(numpy.exp(mean)), low=float(numpy.exp(low)), high=float(numpy.exp(high)))


def _resampled_logarithms(seeds: Sequence[Sequence[float]], generator: numpy.random.Generator) -> numpy.ndarray:
    """Shape [RESAMPLES]: the mean logarithm over seeds drawn with replacement."""
    by_seed = []
    for samples in seeds:
        values = numpy.asarray(samples)
        picks = generator.integers(len(values), size=(RESAMPLES, len(values)))
        by_seed.append(numpy.log(numpy.median(values[picks], axis=1)))
    table = numpy.stack(by_seed)
    chosen = generator.integers(len(seeds), size=(len(seeds), RESAMPLES))
    return numpy.asarray(numpy.mean(table[chosen, numpy.arange(RESAMPLES)], axis=0))
