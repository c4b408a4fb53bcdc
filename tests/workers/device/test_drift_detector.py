"""A device is compared with its usual times; only times remembered from an earlier process may prove outdated."""

import pytest

from tunefarm_schemas.tuning.device import ReferenceKernelTimes
from tunefarm_workers.device.drift_detector import CHECKS_TO_ACCEPT, DriftDetector

USUAL = ReferenceKernelTimes(compute_s=1e-3, bandwidth_s=1e-3, launch_s=1e-6)
SLOW = ReferenceKernelTimes(compute_s=2e-3, bandwidth_s=1e-3, launch_s=1e-6)
SLOWER = ReferenceKernelTimes(compute_s=4e-3, bandwidth_s=1e-3, launch_s=1e-6)


def checked(drift: DriftDetector, times: ReferenceKernelTimes, count: int) -> bool:
    for _ in range(count):
        drift.checked(times)
    return drift.drifted


@pytest.mark.parametrize("is_remembered", [False, True])
def test_three_checks_begin_and_end_drift(is_remembered: bool) -> None:
    drift = DriftDetector(USUAL, is_remembered=is_remembered)
    assert not checked(drift, SLOW, 2)
    assert checked(drift, SLOW, 1)
    assert checked(drift, USUAL, 2)
    assert not checked(drift, USUAL, 1)


def test_device_never_as_remembered_is_accepted() -> None:
    drift = DriftDetector(USUAL, is_remembered=True)
    assert checked(drift, SLOW, CHECKS_TO_ACCEPT - 1)
    assert drift.checked(SLOW), "it is beyond doubt from then on"
    assert not drift.drifted
    assert not checked(drift, SLOW, 10)
    assert checked(drift, SLOWER, 2 * CHECKS_TO_ACCEPT), "what this process saw itself is not forgotten"


def test_single_usual_check_does_not_reset_acceptance() -> None:
    drift = DriftDetector(USUAL, is_remembered=True)
    assert checked(drift, SLOW, 3)
    for _ in range(CHECKS_TO_ACCEPT - 3):
        assert drift.drifted
        drift.checked(USUAL)
        drift.checked(SLOW)
    assert not drift.drifted


@pytest.mark.parametrize("is_remembered", [False, True])
def test_device_once_as_usual_stays_quarantined_while_slow(
    is_remembered: bool,
) -> None:
    drift = DriftDetector(USUAL, is_remembered=is_remembered)
    assert not checked(drift, USUAL, 3)
    assert checked(drift, SLOW, 3 * CHECKS_TO_ACCEPT)


def test_drift_never_accepts_times_slower_than_measured_here() -> None:
    assert checked(DriftDetector(USUAL), SLOW, 3 * CHECKS_TO_ACCEPT)
