"""Five hundred hostile and broken candidates among valid ones, in random order."""

import random
from itertools import chain, islice
from pathlib import Path

import pytest

from tests.acceptance.hostile.hostile_candidates import (
    HostileCandidate,
    all_native,
    broken,
    good,
    misused,
    mutated,
    workload,
)
from tests.acceptance.hostile.measuring_farm import Holdings, assert_nothing_is_left, measured, measuring_farm
from tests.acceptance.hostile.test_hostile_candidates import complaint
from tests.server_of_user import USERS
from tunefarm_schemas.tuning.measurement import Failed, Stopped, Timing

HOSTILE = 500
MUTATED = 200


def five_hundred(forbidden: Path, generator: random.Random) -> list[HostileCandidate]:
    known = list(chain(all_native(str(forbidden)), broken(), misused()))
    chosen = [mutated(generator) for _ in range(MUTATED)]
    chosen += islice(chain.from_iterable(iter(lambda: known, None)), HOSTILE - MUTATED)
    generator.shuffle(chosen)
    return chosen


@pytest.mark.faults
@pytest.mark.parametrize("user", USERS)
def test_many_hostile_candidates_leave_nothing_behind(tmp_path: Path, user: str) -> None:
    forbidden = tmp_path / "made-by-a-kernel"
    hostile = five_hundred(forbidden, random.Random(7))
    traces = [trace for each in hostile for trace in (each.trace, good())]
    with measuring_farm(tmp_path, workload(), user=user) as farm:
        measured(farm, [good()] * 5)
        before = Holdings.now(tmp_path)
        mixed = measured(farm, traces)
        after = measured(farm, [good()] * 5)
        assert_nothing_is_left(before, tmp_path)
    complaints = [text for each, m in zip(hostile, mixed[::2], strict=True) if (text := complaint(each, m))]
    assert not complaints, "\n".join(complaints)
    neighbours = [each.name for each in hostile]
    goods = mixed[1::2]
    spoilt = [(at, neighbours[at], m.result.failure) for at, m in enumerate(goods) if isinstance(m.result, Failed)]
    assert not spoilt, spoilt
    assert all(isinstance(m.result, Timing | Stopped) for m in after), after
    assert not forbidden.exists()
