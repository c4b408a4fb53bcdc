"""Hostile and broken candidates end as typed failures and do not affect valid ones."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import pytest

from tests.acceptance.hostile.hostile_candidates import HostileCandidate, all_native, broken, good, misused, workload
from tests.acceptance.hostile.measuring_farm import Holdings, assert_nothing_is_left, measured, measuring_farm
from tests.server_of_user import ROOT, USERS
from tunefarm_schemas.tuning.measurement import Failed, Measurement, Stopped, Timing

OF_ANY_USER = frozenset({"never return", "sleep", "hang later", "babble on its output", "be wrong"})
"""Slow attacks whose result does not depend on the user of the lane."""
SLOW = {ROOT: pytest.mark.faults}


@pytest.mark.parametrize("user", [pytest.param(user, marks=SLOW.get(user, ())) for user in USERS])
def test_hostile_candidates_fail_and_good_ones_are_timed(tmp_path: Path, user: str) -> None:
    forbidden = tmp_path / "made-by-a-kernel"
    assert_each_fails(tmp_path, user, list(chain(all_native(str(forbidden)), broken(), misused())))
    assert not forbidden.exists()


@pytest.mark.skipif(ROOT not in USERS, reason="only root has a lane of root's")
def test_candidate_on_root_lane_has_no_root_privileges(tmp_path: Path) -> None:
    forbidden = tmp_path / "made-by-a-kernel"
    hostile = [each for each in all_native(str(forbidden)) if each.name not in OF_ANY_USER]
    assert_each_fails(tmp_path, ROOT, hostile)
    assert not forbidden.exists()


def assert_each_fails(tmp_path: Path, user: str, hostile: Sequence[HostileCandidate]) -> None:
    """Assert that each attack fails for its reason, that valid candidates are timed, and that no resources stay."""
    with measuring_farm(tmp_path, workload(), user=user) as farm:
        measured(farm, [good()] * 3)
        before = Holdings.now(tmp_path)
        mixed = measured(farm, [trace for each in hostile for trace in (each.trace, good())])
        after = measured(farm, [good()] * 3)
        assert_nothing_is_left(before, tmp_path)
    complaints = [text for each, m in zip(hostile, mixed[::2], strict=True) if (text := complaint(each, m))]
    assert not complaints, "\n".join(complaints)
    good_ones = [m.result for m in (*mixed[1::2], *after)]
    assert all(isinstance(result, Timing | Stopped) for result in good_ones), good_ones


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
