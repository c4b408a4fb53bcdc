"""The gate in virtual time."""

import random

import pytest

from tests.fleet.simulated_fleet import MANIFEST, SimulatedFleet
from tunefarm_schemas.edge.release import GatePolicy
from tunefarm_services.fleet.gate import Quantiles, StageDevice, judged
from tunefarm_services.fleet.sign_test import can_show, shown

POLICY = GatePolicy()
SEEDS = range(3)
DEVICES = 2_000


def device(**changes: object) -> StageDevice:
    given: dict[str, object] = {
        "failure": None,
        "was_heard": True,
        "waits_since_s": 0.0,
        "field": MANIFEST,
        "reference": MANIFEST,
    }
    return StageDevice(**(given | changes))


def slower(factor: float) -> StageDevice:
    return device(field=Quantiles(factor * MANIFEST.p50_s, factor * MANIFEST.p95_s))


def test_equal_release_reaches_every_device():
    ends = [SimulatedFleet(DEVICES).rollout(POLICY, seed) for seed in SEEDS]
    assert [(end.action, end.percent) for end in ends] == [("finished", 100)] * len(SEEDS)


def test_slow_release_is_stopped_at_ten_percent_or_before():
    for seed in SEEDS:
        end = SimulatedFleet(DEVICES, slowdown=1.5).rollout(POLICY, seed)
        assert end.action == "stop"
        assert end.percent <= 10


def test_silent_and_failing_devices_end_as_the_policy_says():
    fleet = SimulatedFleet(DEVICES, silent=0.03, failing=0.01)
    ends = [fleet.rollout(POLICY, seed) for seed in SEEDS]
    for end in ends:
        share = sum(fate.kind != "fine" for fate in end.members) / len(end.members)
        assert end.action == ("stop" if share > POLICY.max_failed_percent / 100 else "finished"), share
    assert "finished" in {end.action for end in ends}
    strict = POLICY.model_copy(update={"max_failed_percent": 2.0})
    assert {fleet.rollout(strict, seed).action for seed in SEEDS} == {"stop"}


@pytest.mark.faults
def test_false_stops_and_false_advances_are_rare():
    stage = GatePolicy(stages_percent=(100,))
    equal = [SimulatedFleet(100).rollout(stage, seed).action for seed in range(100)]
    assert equal.count("stop") == 0
    assert equal.count("finished") >= 95
    # Exactly at the tolerance, neither may be shown more often than the confidence permits.
    border = [SimulatedFleet(100, slowdown=1.05).rollout(stage, seed).action for seed in range(200)]
    assert border.count("finished") <= 10
    assert border.count("stop") <= 20


def test_sign_test_holds_at_every_look():
    draw = random.Random(1)
    errors = 0
    for _ in range(200):
        favourable = 0
        for total in range(1, 301):
            favourable += draw.random() < 0.5
            if shown(favourable, total, 0.9):
                errors += 1
                break
    assert errors <= 0.1 * 200


def test_sign_test_needs_seven_devices_for_ninety_five_percent():
    assert [can_show(total, 0.95) for total in (6, 7)] == [False, True]
    assert shown(5_200, 10_000, 0.95)
    assert not shown(5_000, 10_000, 0.95)


def test_small_stage_asks_for_all_of_its_devices():
    assert judged(POLICY, [slower(1.0)], 1.0).action == "advance"
    assert judged(POLICY, [slower(1.0), slower(1.5)], 1.0).action == "wait"


def test_too_many_failures_stop_with_their_causes():
    verdict = judged(POLICY, [*[device()] * 90, *[device(failure="crashed")] * 10], 1.0)
    assert verdict.action == "stop"
    assert "10 of 100 devices failed (10 crashed)" in verdict.reason


def test_device_counts_as_failed_after_the_deadline_only():
    silent = [device(was_heard=False, field=None)] * 6
    devices = [*[device()] * 94, *silent]
    assert judged(POLICY, devices, POLICY.deadline_s).action == "wait"
    verdict = judged(POLICY, devices, POLICY.deadline_s + 1)
    assert verdict.action == "stop"
    assert "6 silent" in verdict.reason


def test_device_that_was_enrolled_late_has_its_own_deadline():
    late = device(was_heard=False, field=None, waits_since_s=POLICY.deadline_s)
    assert judged(POLICY, [device()] * 20 + [late] * 2, POLICY.deadline_s + 1).action == "wait"


def test_stage_waits_for_slow_reporters():
    waiting = device(field=None)
    assert judged(POLICY, [device()] * 90 + [waiting] * 10, 1.0).action == "wait"
    assert judged(POLICY, [device()] * 96 + [waiting] * 4, 1.0).action == "advance"


def test_slow_tail_alone_stops():
    tail = device(field=Quantiles(MANIFEST.p50_s, 2 * MANIFEST.p95_s))
    verdict = judged(POLICY, [tail] * 50, 1.0)
    assert verdict.action == "stop"
    assert verdict.reason.startswith("p95")


def test_release_without_any_reference_is_judged_by_failures_alone():
    assert judged(POLICY, [device(reference=None)] * 10, 1.0).action == "advance"


@pytest.mark.parametrize("devices", [0, 4])
def test_without_latencies_no_stage_advances(devices: int):
    assert judged(POLICY, [device(field=None)] * devices, 10 * POLICY.deadline_s).action == "wait"
