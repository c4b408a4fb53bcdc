"""Times a bundle's shared library in fresh processes that have the device to themselves."""

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Final

from tunefarm.bundle.link.linking import LIBRARY
from tunefarm.bundle.timing.bundle_timing_child import TIME_BUNDLE, BundleSamples, BundleTimingOrder
from tunefarm.model.child_call import compiling, exchange
from tunefarm.model.messages import AwaitsTurn
from tunefarm.model.timing.model_times import TURN_S
from tunefarm.model.timing.timing import PROCESSES
from tunefarm_sandbox.channel.channel import ChannelClosed
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.tuning.bundle import BundleLatency, BundleManifest
from tunefarm_workers.builder.sealed_library import sealed
from tunefarm_workers.timing.host_turn import own_turn

BUNDLE_PROTOCOL: Final = "bundle-hot-cache/1"
"""Single runs one after the other, in three processes that each wait for their turn at measuring on the host."""


def bundle_latency(fork_server: ForkServer, folder: Path, manifest: BundleManifest) -> BundleLatency:
    """The latency on this host of the bundle in ``folder``, which has the form ``library``.

    Raises:
        BadInput: it cannot be loaded or run here.
    """
    library = sealed((folder / LIBRARY).read_bytes())
    try:
        processes = [_samples_s(fork_server, folder, manifest, library) for _ in range(PROCESSES)]
    finally:
        os.close(library)
    return latency_of(processes)


def latency_of(processes: Sequence[Sequence[float]]) -> BundleLatency:
    """The latency from seconds of single runs in each process. Each process counts alike."""
    fewest = min(map(len, processes))
    samples_s = sorted(each for own in processes for each in own[:fewest])
    return BundleLatency(
        p50_s=median(samples_s),
        p95_s=samples_s[math.ceil(0.95 * len(samples_s)) - 1],
        interval_s=(samples_s[0], samples_s[-1]),
        protocol=BUNDLE_PROTOCOL,
    )


def _samples_s(fork_server: ForkServer, folder: Path, manifest: BundleManifest, library: int) -> tuple[float, ...]:
    order = BundleTimingOrder(folder=str(folder), manifest=manifest)
    confinement = Confinement.strict(readable=(str(folder),))
    descriptors = (library,)
    with compiling(
        fork_server, TIME_BUNDLE, order, folder=folder, confinement=confinement, descriptors=descriptors
    ) as child:
        exchange(child, AwaitsTurn, "loading", has_bytes=False)
        with own_turn(TURN_S):
            with suppress(ChannelClosed):  # it died; reading its answer raises
                child.channel.send(b"go")
            return exchange(child, BundleSamples, "running", has_bytes=False)[0].samples_s
