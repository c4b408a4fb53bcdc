"""A damaged reference quarantines the device and blames no schedule."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.workers import workloads
from tests.workers.conftest import SETTINGS
from tests.workers.hostile import DAMAGED_ALIKE, DAMAGED_IN_A_ROW, DAMAGED_OTHERWISE
from tests.workers.measuring import RunningFarm, reason_of
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import REFERENCE_IN_DOUBT, BadInput
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import ComparisonOrder, Failed, Measurement, Purpose, Timing
from tunefarm_workers.lane.local_farm import LocalFarm

RECOVERY_S = 120.0


@pytest.mark.parametrize(
    ("rows", "words"), [(DAMAGED_OTHERWISE, "computed twice"), (DAMAGED_ALIKE, "the untuned function itself")]
)
@pytest.mark.quick_cases(1)
def test_damaged_reference_blames_no_schedule(
    fork_server: ForkServer, running: RunningFarm, tmp_path: Path, rows: int, words: str
) -> None:
    farm = LocalFarm(fork_server, scratch=tmp_path, known=running.farm.device, settings=SETTINGS)
    try:
        measuring = RunningFarm(farm)
        module = workloads.matmul(rows)
        opened = measuring.open(module)
        for _ in range(2):
            measuring.submit(opened, workloads.tiled(module, rows=4, columns=4), Purpose.VERIFY)
        with pytest.raises(BadInput, match="reference cannot be trusted") as alarm:
            _collect_until_refused(farm)
        assert alarm.value.field == REFERENCE_IN_DOUBT
        assert words in alarm.value.problem
        with pytest.raises(BadInput, match="reference cannot be trusted"):
            farm.compare(ComparisonOrder(exploration_id=opened, traces=(None,)))
        assert _recovers(farm)
        sound = workloads.matmul(64)
        number = measuring.submit(measuring.open(sound), workloads.tiled(sound))
        collected: dict[int, Measurement] = {}
        while number not in collected:
            collected.update(measuring.collect(1))
        assert isinstance(collected[number].result, Timing)
    finally:
        farm.close()


def test_comparison_never_blames_untuned_function(running: RunningFarm) -> None:
    opened = running.open(workloads.matmul(DAMAGED_ALIKE))
    compared = running.farm.compare(ComparisonOrder(exploration_id=opened, traces=(None,), seconds_each=0.02))
    assert isinstance(compared.results[0], Failed)
    assert compared.results[0].failure.reason is FailureReason.CANCELED
    with pytest.raises(BadInput, match="reference cannot be trusted") as alarm:
        _collect_until_refused(running.farm)
    assert "the untuned function itself" in alarm.value.problem
    assert _recovers(running.farm)


@pytest.mark.faults
def test_row_damaged_reference_blames_no_long_schedule(
    running: RunningFarm,
) -> None:
    """The reference of a long function is checked at samples, and where a schedule differs from it."""
    module = workloads.matmul(DAMAGED_IN_A_ROW)
    running.submit(running.open(module), workloads.tiled(module), Purpose.VERIFY)
    with pytest.raises(BadInput, match="the untuned function itself"):
        _collect_until_refused(running.farm)
    running.farm.collect(0.0)  # collects the canceled ones, unless they came before: other tests share this farm
    assert _recovers(running.farm)


def test_wrong_schedule_is_found_with_confirmed_reference(running: RunningFarm) -> None:
    module = workloads.matmul(64)
    opened = running.open(module)
    assert reason_of(running.measure(opened, workloads.rounded_too_early(module))) is FailureReason.WRONG_RESULT
    assert running.farm.lane.tasks[opened].is_confirmed
    assert isinstance(running.measure(opened, workloads.tiled(module)).result, Timing)


@pytest.mark.faults
def test_task_process_killed_during_confirmation_blames_no_schedule(running: RunningFarm) -> None:
    module = workloads.matmul()
    opened = running.open(module)
    lane, task = running.farm.lane, running.farm.lane.tasks[opened]
    number = running.submit(opened, workloads.rounded_too_early(module))
    deadline_s = time.monotonic() + RECOVERY_S
    while task.confirmation is None and time.monotonic() < deadline_s:
        time.sleep(0.001)
    os.kill(task.process.pid, signal.SIGKILL)
    assert reason_of(running.collect(1)[number]) is FailureReason.WRONG_RESULT
    assert lane.tasks[opened].is_confirmed


def _collect_until_refused(farm: LocalFarm) -> list[Measurement]:
    """Collect until the farm raises ``BadInput``; measurements before it are canceled or lost, never wrong."""
    collected: list[Measurement] = []
    while arrived := farm.collect(60.0):
        for measurement in arrived:
            assert reason_of(measurement) in {FailureReason.CANCELED, FailureReason.DEVICE_LOST}
        collected += arrived
    return collected


def _recovers(farm: LocalFarm) -> bool:
    deadline_s = time.monotonic() + RECOVERY_S
    while farm.trouble() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return not farm.trouble()
