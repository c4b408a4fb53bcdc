"""Retries of a device back off, and a device that fails repeatedly is quarantined."""

import pytest

from tunefarm_schemas.tuning.device import ReferenceKernelTimes
from tunefarm_workers.session.device_health import DeviceHealth, HealthSettings

USUAL = ReferenceKernelTimes(compute_s=1e-3, bandwidth_s=1e-3, launch_s=1e-6)
SLOW = ReferenceKernelTimes(compute_s=2e-3, bandwidth_s=1e-3, launch_s=1e-6)
SETTINGS = HealthSettings(
    first_wait_s=1.0, longest_wait_s=4.0, patience_s=10.0, losses=3, quarantine_s=30.0, check_every_s=60.0
)


@pytest.fixture
def health() -> DeviceHealth:
    return DeviceHealth(SETTINGS, USUAL)


def test_reconnect_delay_doubles_up_to_a_limit(health: DeviceHealth) -> None:
    now_s = 100.0
    for wait_s in (1.0, 2.0, 4.0, 4.0):
        health.unreachable(now_s, "refused")
        assert not health.may_try(now_s + wait_s - 0.1)
        assert health.may_try(now_s + wait_s)
        now_s += wait_s
    health.reached()
    health.unreachable(now_s, "refused")
    assert health.may_try(now_s + 1.0)


def test_unreachable_device_is_given_up_after_patience(health: DeviceHealth) -> None:
    health.unreachable(0.0, "refused")
    assert not health.given_up(9.9)
    assert health.given_up(10.0)
    health.unreachable(11.0, "refused")
    assert not health.given_up(18.0)
    assert health.given_up(19.0)
    health.reached()
    health.unreachable(20.0, "refused")
    assert not health.given_up(29.0)


def test_repeated_losses_quarantine_until_check_succeeds(health: DeviceHealth) -> None:
    for moment_s in (0.0, 10.0):
        health.lost(moment_s, "the connection broke")
    health.measured()
    for moment_s in (20.0, 30.0):
        health.lost(moment_s, "the connection broke")
    assert not health.quarantined
    health.lost(40.0, "the connection broke")
    assert health.quarantined
    assert not health.may_try(69.0)
    assert health.may_try(70.0)
    assert health.check_due(70.0)
    health.checked(USUAL, 70.0)
    assert not health.quarantined
    assert not health.check_due(71.0)


def test_three_slow_checks_are_drift(health: DeviceHealth) -> None:
    assert not health.checked(SLOW, 0.0), "what was measured until now may have to be repeated"
    assert health.checked(USUAL, 1.0)
    for moment_s in (2.0, 3.0):
        assert not health.checked(SLOW, moment_s)
        assert not health.quarantined
        assert health.check_due(moment_s + 0.5)
    assert not health.checked(SLOW, 4.0)
    assert health.quarantined
    assert "slower" in health.reason
    assert not health.may_try(33.0)
    assert not health.checked(SLOW, 34.0)
    assert health.may_try(34.0), "a device that stays slow is what there is"
    for moment_s in (94.0, 95.0):
        assert not health.checked(USUAL, moment_s), "a noisy device has its moments"
        assert health.quarantined
        assert health.check_due(moment_s + 0.5)
    assert health.checked(USUAL, 96.0)
    assert not health.quarantined
    assert not health.check_due(97.0)
