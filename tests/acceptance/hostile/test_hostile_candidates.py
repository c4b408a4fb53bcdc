"""Hostile and broken candidates end as typed failures and do not affect valid ones."""

from pathlib import Path

import pytest

from tests.acceptance.hostile.hostile_candidates import HostileCandidate, all_native, broken, good, misused, workload
from tests.acceptance.hostile.measuring_farm import Holdings, assert_nothing_is_left, measured, measuring_farm
from tests.server_of_user import USERS
from tunefarm_schemas.tuning.measurement import Failed, Measurement, Stopped, Timing


@pytest.mark.faults
@pytest.mark.parametrize("user", USERS)
def test_hostile_candidates_fail_and_valid_ones_are_timed(tmp_path: Path, user: str) -> None:
    forbidden = tmp_path / "made-by-a-kernel"
    running = [*all_native(str(forbidden)), *misused()]
    with measuring_farm(tmp_path, workload(), user=user) as farm:
        measured(farm, [good()] * 3)
        before = Holdings.now(tmp_path)
        mixed = measured(farm, [trace for each in running for trace in (each.trace, good())])
        unread = measured(farm, [each.trace for each in broken()])
        after = measured(farm, [good()] * 3)
        assert_nothing_is_left(before, tmp_path)
    ended = zip((*running, *broken()), (*mixed[::2], *unread), strict=True)
    complaints = [text for each, measurement in ended if (text := complaint(each, measurement))]
    assert not complaints, "\n".join(complaints)
    good_ones = [measurement.result for measurement in (*mixed[1::2], *after)]
    assert all(isinstance(result, Timing | Stopped) for result in good_ones), good_ones
    assert not forbidden.exists()


def complaint(candidate: HostileCandidate, measurement: Measurement) -> str:
    """The deviation of a candidate's result from the expectation; empty if there is none."""
    result = measurement.result
    if candidate.reasons is None:
        return "" if not isinstance(result, Failed) or result.failure.message else f"{candidate.name}: no reason"
    if not isinstance(result, Failed):
        return f"{candidate.name}: was taken for {result!r}"
    if result.failure.reason not in candidate.reasons or not result.failure.message:
        return f"{candidate.name}: {result.failure!r}"
    return ""
