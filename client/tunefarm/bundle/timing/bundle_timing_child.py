"""The child that times the shared library of a bundle."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from tunefarm.bundle.timing.shared_library import SharedModel
from tunefarm.model.timing.timing_child import await_turn
from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.fork_server.question import answer
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.bundle import BundleManifest
from tunefarm_workers.builder.sealed_library import path_of
from tunefarm_workers.timing.calm_samples import is_calm
from tunefarm_workers.timing.interleaved_timing import PATIENCE

TIME_BUNDLE: Final = "tunefarm.bundle.timing.bundle_timing_child:main"
_SECONDS: Final = 0.3
"""Seconds of timing in each process; four times as much if the samples scatter."""
_MIN_SAMPLES: Final = 7
_MAX_SAMPLES: Final = 2000
_SLOW_S: Final = 8.0
"""After so many seconds, fewer samples than ``_MIN_SAMPLES`` are enough: a turn at measuring is limited."""


class BundleTimingOrder(Frozen):
    """A bundle's folder and its manifest, not yet written; the library is passed in sealed memory."""

    folder: str
    manifest: BundleManifest


class BundleSamples(Frozen):
    """Seconds of single runs in one process."""

    samples_s: tuple[float, ...]


def main(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry: load the library of a ``BundleTimingOrder``, await the turn, and answer with ``BundleSamples``."""
    order = BundleTimingOrder.model_validate_json(payload)
    answer(channel, lambda: _timed(order, descriptors[0], partial(await_turn, channel)))


def _timed(order: BundleTimingOrder, library: int, on_ready: Callable[[], None]) -> BundleSamples:
    run = SharedModel(path_of(library), Path(order.folder), order.manifest)
    run()  # pages of the weights are read, and threads start, before others wait
    on_ready()
    return BundleSamples(samples_s=single_runs_s(run))


def single_runs_s(run: Callable[[], None]) -> tuple[float, ...]:
    """Seconds of runs one after the other, all of them: the slow ones count for the 95th percentile."""
    samples_s: list[float] = []
    began_s = now_s = time.perf_counter()
    while not _suffice(samples_s, now_s - began_s):
        before_s = time.perf_counter()
        run()
        now_s = time.perf_counter()
        samples_s.append(now_s - before_s)
    return tuple(samples_s)


def _suffice(samples_s: Sequence[float], spent_s: float) -> bool:
    if len(samples_s) < _MIN_SAMPLES:
        return bool(samples_s) and spent_s >= _SLOW_S
    if spent_s < _SECONDS and len(samples_s) < _MAX_SAMPLES:
        return False
    return is_calm(samples_s) or spent_s >= PATIENCE * _SECONDS or len(samples_s) >= _MAX_SAMPLES
