"""Which devices belong to a stage, and what they are told to run."""

import random

import pytest

from tests.fleet.sample import FACTS, document, release, variant
from tunefarm_services.fleet.advice import chosen, poll_after_s
from tunefarm_services.fleet.rollout import Rollout, RolloutState
from tunefarm_services.fleet.stage import ALL, cutoff, device_number

DEVICES = [f"{number:016x}" for number in range(10_000)]


def rollout(state: RolloutState = RolloutState.RUNNING, *, cutoff: float = ALL, reason: str = "why") -> Rollout:
    return Rollout(
        channel="stable",
        sequence=1,
        release="cnn-2",
        state=state,
        stage=0,
        cutoff=cutoff,
        reason=reason,
        began_s=0.0,
        stage_began_s=0.0,
        evaluated_s=0.0,
        version=0,
    )


@pytest.mark.parametrize(("percent", "devices"), [(1, 100), (10, 1_000), (33, 3_300), (50, 5_000), (100, 10_000)])
def test_stage_has_its_exact_share_of_devices(percent: int, devices: int):
    numbers = [device_number(device, "cnn-2") for device in DEVICES]
    limit = cutoff(numbers, percent)
    assert sum(number < limit for number in numbers) == devices


def test_devices_of_a_stage_stay_in_the_next():
    numbers = {device: device_number(device, "cnn-2") for device in DEVICES[:500]}
    limits = [cutoff(numbers.values(), percent) for percent in (1, 10, 50, 100)]
    assert limits == sorted(limits)


def test_small_fleets_round_up_to_one_device():
    assert sum(number < cutoff([3.0, 2.0, 9.0], 1) for number in (3.0, 2.0, 9.0)) == 1
    assert cutoff([], 1) == ALL


def test_another_release_begins_with_other_devices():
    first = {d for d in DEVICES if device_number(d, "cnn-2") < 1}
    second = {d for d in DEVICES if device_number(d, "cnn-3") < 1}
    assert 50 < len(first) < 150
    assert len(first & second) < 10
    assert all(0 <= device_number(d, "cnn-2") < 100 for d in DEVICES)


def test_device_number_never_changes():
    assert device_number("0123456789abcdef", "cnn-2") == pytest.approx(44.687366574338625)


def test_polls_that_began_together_are_spread_over_the_interval():
    draw = random.Random(0)
    due_s = [sum(poll_after_s(300.0, draw) for _ in range(30)) % 300.0 for _ in DEVICES]
    tenths = [sum(part * 30 <= at_s < (part + 1) * 30 for at_s in due_s) for part in range(10)]
    assert min(tenths) > 800
    assert max(tenths) < 1_200


def test_device_of_the_stage_runs_the_release_and_others_the_previous_one():
    number = device_number("a", "cnn-2")
    assert chosen(document(), rollout(cutoff=number + 1), "a", FACTS, "cnn-1")[:2] == ("run_current", "cnn-2")
    assert chosen(document(), rollout(cutoff=number), "a", FACTS, "cnn-1")[:2] == ("run_previous", "cnn-1")


def test_first_release_reaches_no_device_outside_its_stage():
    action, name, reason = chosen(document(previous=None), rollout(cutoff=0.0), "a", FACTS, None)
    assert (action, name) == ("stay", None)
    assert "no previous release" in reason


@pytest.mark.parametrize("state", [RolloutState.STOPPED, RolloutState.ROLLED_BACK])
def test_devices_return_to_the_previous_release(state: RolloutState):
    assert chosen(document(), rollout(state), "a", FACTS, "cnn-2")[:2] == ("run_previous", "cnn-1")


def test_revoked_previous_release_is_never_advised():
    back = chosen(document(revoked=("cnn-1",)), rollout(RolloutState.STOPPED), "a", FACTS, "cnn-2")
    assert back[:2] == ("stay", "cnn-2")


def test_emergency_stop_reaches_every_device():
    assert chosen(document(), rollout(RolloutState.HALTED, cutoff=0.0), "a", FACTS, "cnn-1")[0] == "stop"


def test_document_of_another_release_than_the_rollout_changes_no_device():
    finished = rollout(RolloutState.FINISHED)
    assert chosen(document(current=release("cnn-3")), finished, "a", FACTS, "cnn-2")[:2] == ("stay", "cnn-2")


def test_paused_rollout_changes_no_device():
    paused = rollout(RolloutState.PAUSED)
    assert chosen(document(), paused, "a", FACTS, "cnn-1")[:2] == ("stay", "cnn-1")
    assert chosen(document(), paused, "a", FACTS, "cnn-2")[:2] == ("run_current", "cnn-2")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"architecture": "riscv64"}, "no variant for riscv64"),
        ({"cpu_features": ()}, "needs asimd, which the device lacks"),
        ({"runtime_abi": 2}, "no variant for runtime ABI 2"),
        ({"free_bytes": 10}, "needs 1000000 bytes of space, and the device has 10"),
    ],
)
def test_device_that_cannot_run_the_release_stays_with_the_reason(changes: dict[str, object], reason: str):
    action, name, told = chosen(document(), rollout(), "a", FACTS.model_copy(update=changes), "cnn-1")
    assert (action, name) == ("stay", "cnn-1")
    assert reason in told


def test_variant_of_another_device_class_is_left_out():
    of_class = release("cnn-2", variant(device_class_id="other"))
    action, _, reason = chosen(document(current=of_class), rollout(), "a", FACTS, "cnn-1")
    assert action == "stay"
    assert "device class" in reason


def test_device_that_runs_the_release_needs_no_space_for_it():
    full = FACTS.model_copy(update={"free_bytes": 0})
    assert chosen(document(), rollout(), "a", full, "cnn-2")[0] == "run_current"
