"""Compile workers that are killed or missing."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compiling.place import Place, place_at
from tests.farm.workers import await_ready, eventually, gather, has_state, lane_of, reason_of
from tests.workers import workloads
from tunefarm_schemas.farm.lane import LaneState

pytestmark = pytest.mark.faults

TRIALS = 24


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_at(tmp_path) as place:
        yield place


def test_killed_compile_worker_loses_no_trial(place: Place) -> None:
    compiler, gateway = place.start_compiler(), place.start_gateway()
    await_ready(place.store, compiler, gateway)
    module = workloads.matmul(64)
    farm = place.open_farm()
    farm.open_task(workloads.task(module, "killed"))
    for number in range(TRIALS):
        farm.submit(workloads.dispatch("killed", workloads.tiled(module, 2 ** (number % 5)), number))
    found = gather(farm, 4)
    compiler.kill()
    place.start_compiler()
    found |= gather(farm, TRIALS - len(found))
    assert {measurement.candidate_number for measurement in found.values()} == set(range(TRIALS))
    assert {reason_of(measurement) for measurement in found.values()} == {None}
    time.sleep(2.0)
    assert farm.collect(0.1) == [], "no trial is answered twice"


def test_gateway_without_compilers_is_quarantined(place: Place) -> None:
    compiler, gateway = place.start_compiler(), place.start_gateway()
    await_ready(place.store, compiler, gateway)
    assert compiler.stop() == 0
    eventually(lambda: has_state(place.store, "gateway", LaneState.QUARANTINED), what="quarantine")
    lane = lane_of(place.store, "gateway")
    assert lane is not None
    assert "no compile lane of the pool test-boards is alive" in lane.reason
    place.start_compiler()
    eventually(lambda: has_state(place.store, "gateway", LaneState.READY), what="readiness")
