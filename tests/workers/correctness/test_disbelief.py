"""Implausible times make no record, and the device is checked after one."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.farm.workers import eventually
from tests.workers import workloads
from tests.workers.conftest import SETTINGS
from tests.workers.measuring import RunningFarm, message_of, misdeed, reason_of, slow_device
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import ComparisonOrder, Failed, Purpose, Timing
from tunefarm_workers.lane.local_farm import LocalFarm

IMPLAUSIBLE = misdeed("tell three nanoseconds")
NEVER_S = 1e6


@pytest.fixture
def unchecked(fork_server: ForkServer, tmp_path: Path) -> Iterator[RunningFarm]:
    """A farm that checks its device only when it has a reason."""
    settings = SETTINGS.model_copy(update={"drift_check_s": NEVER_S})
    farm = LocalFarm(fork_server, scratch=tmp_path, known=slow_device(), settings=settings)
    with closing(farm):
        assert farm.last_check is None
        yield RunningFarm(farm)


def await_check(running: RunningFarm) -> None:
    eventually(lambda: running.farm.last_check, what="a check of the device")


@pytest.mark.parametrize("purpose", [Purpose.SEARCH, Purpose.VERIFY])
@pytest.mark.quick_cases(1)
def test_implausible_trial_does_not_become_incumbent(unchecked: RunningFarm, purpose: Purpose) -> None:
    module = workloads.matmul(64)
    opened = unchecked.open(module)
    lied = unchecked.measure(opened, IMPLAUSIBLE, purpose)
    assert reason_of(lied) is FailureReason.WRONG_RESULT
    assert "Its time is not believed: 3 ns a call" in message_of(lied)
    await_check(unchecked)
    assert isinstance(unchecked.measure(opened, workloads.tiled(module)).result, Timing), "no incumbent stops it"


def test_comparison_omits_implausible_schedule(unchecked: RunningFarm) -> None:
    module = workloads.matmul(64)
    order = ComparisonOrder(exploration_id=unchecked.open(module), traces=(IMPLAUSIBLE,), seconds_each=0.02)
    (result,) = unchecked.farm.compare(order).results
    assert isinstance(result, Failed)
    assert result.failure.reason is FailureReason.WRONG_RESULT
    assert "not believed" in result.failure.message
    await_check(unchecked)


def test_implausible_fresh_process_is_not_believed(unchecked: RunningFarm) -> None:
    task = unchecked.farm.lane.tasks[unchecked.open(workloads.matmul(64))]
    assert unchecked.farm.implausible(task, 1e-5) is None
    assert unchecked.farm.last_check is None
    doubt = unchecked.farm.implausible(task, 3e-9)
    assert doubt is not None
    assert doubt.reason is FailureReason.WRONG_RESULT
    await_check(unchecked)
