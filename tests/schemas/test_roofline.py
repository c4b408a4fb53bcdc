"""Rooflines from the peaks of a device."""

import pytest

from tunefarm_schemas.roofline import Bandwidth, DevicePeaks, Work, roofline_of

PEAKS = DevicePeaks(
    cores=2,
    float32_operations_per_s=1e11,
    bandwidths=(
        Bandwidth(size_bytes=1 << 14, one_thread_bytes_per_s=2e11, all_threads_bytes_per_s=4e11),
        Bandwidth(size_bytes=1 << 20, one_thread_bytes_per_s=1e11, all_threads_bytes_per_s=2e11),
        Bandwidth(size_bytes=1 << 25, one_thread_bytes_per_s=1e10, all_threads_bytes_per_s=1.5e10),
    ),
)


def test_longer_time_is_the_bound() -> None:
    matmul = roofline_of(2e9, Work(moved_bytes=1 << 20, dtype="float32"), PEAKS, 2)
    assert matmul is not None
    assert (matmul.latency_s, matmul.bound) == (pytest.approx(1e-2), "compute")
    copy = roofline_of(1e3, Work(moved_bytes=1 << 20, dtype="float32"), PEAKS, 2)
    assert copy is not None
    assert (copy.latency_s, copy.bound) == (pytest.approx((1 << 20) / 2e11), "memory")


def test_small_data_moves_at_the_speed_of_its_cache() -> None:
    assert PEAKS.bytes_per_s(100, 1) == 2e11
    assert PEAKS.bytes_per_s((1 << 20) - 1, 1) == 2e11
    assert PEAKS.bytes_per_s(1 << 20, 1) == 1e11
    assert PEAKS.bytes_per_s(1 << 30, 1) == 1e10


def test_cold_data_comes_from_memory() -> None:
    assert PEAKS.bytes_per_s(100, 1, cold_cache=True) == 1e10


def test_threads_multiply_what_a_core_does_up_to_the_device() -> None:
    assert [PEAKS.operations_per_s(threads) for threads in (0, 1, 2, 64)] == [1e11, 1e11, 2e11, 2e11]
    assert PEAKS.bytes_per_s(1 << 25, 2) == 1.5e10
    wide = PEAKS.model_copy(update={"cores": 8})
    assert wide.bytes_per_s(1 << 14, 3) == 4e11


def test_larger_data_is_never_faster() -> None:
    noisy = PEAKS.model_copy(update={"bandwidths": (PEAKS.bandwidths[1], PEAKS.bandwidths[0])})
    assert noisy.bytes_per_s(1 << 20, 1) == 2e11


@pytest.mark.parametrize(
    ("work", "peaks"),
    [(None, PEAKS), (Work(moved_bytes=8, dtype="float32"), None), (Work(moved_bytes=8, dtype="int8"), PEAKS)],
)
def test_unknown_peaks_give_no_roofline(work: Work | None, peaks: DevicePeaks | None) -> None:
    assert roofline_of(1e6, work, peaks, 2) is None
