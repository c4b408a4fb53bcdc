"""Peaks of a device, for tests that need some and not those of this host, whose measurement takes half a second."""

from typing import Final

from tunefarm_schemas.roofline import Bandwidth, DevicePeaks

PEAKS: Final = DevicePeaks(
    cores=2,
    float32_operations_per_s=1e11,
    bandwidths=(Bandwidth(size_bytes=1 << 14, one_thread_bytes_per_s=1e11, all_threads_bytes_per_s=2e11),),
)
