"""Implausible times make no record, and the device is checked after one."""

import math
import time

import pytest

from tests.workers import workloads
from tests.workers.measuring import RunningFarm, message_of, misdeed, reason_of
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import ComparisonOrder, Failed, Purpose, Timing
from tunefarm_workers.device.device_watch import DeviceWatch

IMPLAUSIBLE = misdeed("tell three nanoseconds")


@pytest.fixture
def device_checks(running: RunningFarm, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether a check was due, for each extra check of the device.

    The check itself is left out: on a busy host it would rightly quarantine the device.
    """
    seen: list[bool] = []
    look_now = DeviceWatch.look_now

    def noted(watch: DeviceWatch) -> None:
        look_now(watch)
        seen.append(watch._due_s <= time.monotonic())
        watch._due_s = math.inf

    monkeypatch.setattr(DeviceWatch, "look_now", noted)
    return seen


@pytest.mark.parametrize("purpose", [Purpose.SEARCH, Purpose.VERIFY])
def test_implausible_trial_does_not_become_incumbent(
    running: RunningFarm, device_checks: list[bool], purpose: Purpose
) -> None:
    module = workloads.matmul(64)
    opened = running.open(module)
    lied = running.measure(opened, IMPLAUSIBLE, purpose)
    assert reason_of(lied) is FailureReason.WRONG_RESULT
    assert "Its time is not believed: 3 ns a call" in message_of(lied)
    assert device_checks == [True]
    assert isinstance(running.measure(opened, workloads.tiled(module)).result, Timing), "no incumbent stops it"


def test_comparison_omits_implausible_schedule(running: RunningFarm, device_checks: list[bool]) -> None:
    module = workloads.matmul(64)
    order = ComparisonOrder(exploration_id=running.open(module), traces=(IMPLAUSIBLE,), seconds_each=0.02)
    (result,) = running.farm.compare(order).results
    assert isinstance(result, Failed)
    assert result.failure.reason is FailureReason.WRONG_RESULT
    assert "not believed" in result.failure.message
    assert device_checks == [True]


def test_implausible_fresh_process_is_not_believed(running: RunningFarm, device_checks: list[bool]) -> None:
    task = running.farm._lane.tasks[running.open(workloads.matmul(64))]
    doubt = running.farm._implausible(task, 3e-9)
    assert doubt is not None
    assert doubt.reason is FailureReason.WRONG_RESULT
    assert device_checks == [True]
    assert running.farm._implausible(task, 1e-5) is None
