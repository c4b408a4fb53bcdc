"""A device is held against what it was; only what an earlier process remembered may turn out to be no longer true."""

import pytest

from tunefarm_schemas.tuning.device import ReferenceKernelTimes
from tunefarm_workers.device.drift import CHECKS_TO_ACCEPT, Drift

USUAL = ReferenceKernelTimes(compute_s=1e-3, bandwidth_s=1e-3, launch_s=1e-6)
SLOW = ReferenceKernelTimes(compute_s=2e-3, bandwidth_s=1e-3, launch_s=1e-6)
SLOWER = ReferenceKernelTimes(compute_s=4e-3, bandwidth_s=1e-3, launch_s=1e-6)


def checked(drift: Drift, times: ReferenceKernelTimes, count: int) -> bool:
    for _ in range(count):
        drift.checked(times)
    return drift.drifted


@pytest.mark.parametrize("is_remembered", [False, True])
def test_three_slow_checks_are_drift_and_three_as_usual_end_it(is_remembered: bool) -> None:
    drift = Drift(USUAL, is_remembered=is_remembered)
    assert not checked(drift, SLOW, 2)
    assert checked(drift, SLOW, 1)
    assert checked(drift, USUAL, 2)
    assert not checked(drift, USUAL, 1)


def test_a_device_that_was_never_as_remembered_has_changed_for_good() -> None:
    drift = Drift(USUAL, is_remembered=True)
    assert checked(drift, SLOW, CHECKS_TO_ACCEPT - 1)
    assert drift.checked(SLOW), "it is beyond doubt from then on"
    assert not drift.drifted
    assert not checked(drift, SLOW, 10)
    assert checked(drift, SLOWER, 2 * CHECKS_TO_ACCEPT), "what this process saw itself is not forgotten"


def test_a_lucky_check_is_not_what_was_remembered() -> None:
    drift = Drift(USUAL, is_remembered=True)
    assert checked(drift, SLOW, 3)
    for _ in range(CHECKS_TO_ACCEPT - 3):
        assert drift.drifted
        drift.checked(USUAL)
        drift.checked(SLOW)
    assert not drift.drifted


@pytest.mark.parametrize("is_remembered", [False, True])
def test_a_device_that_was_as_usual_since_the_start_is_in_quarantine_for_as_long_as_it_is_slow(
    is_remembered: bool,
) -> None:
    drift = Drift(USUAL, is_remembered=is_remembered)
    assert not checked(drift, USUAL, 3)
    assert checked(drift, SLOW, 3 * CHECKS_TO_ACCEPT)


def test_what_was_timed_in_this_process_is_not_forgotten() -> None:
    assert checked(Drift(USUAL), SLOW, 3 * CHECKS_TO_ACCEPT)
