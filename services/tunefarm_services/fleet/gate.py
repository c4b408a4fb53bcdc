"""Whether a stage of a rollout advances, goes on, or stops the rollout: a pure function of what devices reported."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tunefarm_schemas.edge.release import GatePolicy
from tunefarm_services.fleet.sign_test import can_show, shown

SILENT = "silent"
"""The failure of a device that reported nothing until the deadline."""


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Latencies of one run, in seconds."""

    p50_s: float
    p95_s: float


@dataclass(frozen=True, slots=True)
class StageDevice:
    """A device of a stage that can run the release.

    Attributes:
        failure: why it refused or left the release, or ``self_test_failed``; None if it did not.
        was_heard: whether it reported anything about the release.
        waits_since_s: when the device joined the stage: at the begin of it, or when it was enrolled.
        field: its own quantiles of the release; None before the first.
        reference: of its variant in the manifest, or of the same device under the previous release.
    """

    failure: str | None
    was_heard: bool
    waits_since_s: float
    field: Quantiles | None
    reference: Quantiles | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a stage, and why."""

    action: Literal["wait", "advance", "stop"]
    reason: str


def judged(policy: GatePolicy, devices: Sequence[StageDevice], now_s: float) -> Verdict:
    """Judge the devices of a stage.

    The rollout stops if more than ``max_failed_percent`` of them failed, or if latency is worse. The stage advances
    once no device that is still silent could change that, and latency is shown to be not worse.
    """
    if not devices:
        return Verdict("wait", "no device of the channel can run the release")
    failures = Counter(failure for device in devices if (failure := failure_of(device, policy, now_s)))
    failed, permitted = failures.total(), policy.max_failed_percent / 100 * len(devices)
    if failed > permitted:
        causes = ", ".join(f"{number} {name}" for name, number in failures.most_common(5))
        limit = f"more than {policy.max_failed_percent:g}%"
        return Verdict("stop", f"{failed} of {len(devices)} devices failed ({causes}), {limit}")
    fine = [device for device in devices if not failure_of(device, policy, now_s)]
    latency = _judged_latency(policy, [device for device in fine if device.field is not None], len(fine))
    if latency.action == "stop":
        return latency
    outstanding = sum(is_outstanding(device, policy, now_s) for device in fine)
    if failed + outstanding > permitted:
        return Verdict("wait", f"{outstanding} of {len(devices)} devices have not reported a latency yet")
    return latency


def failure_of(device: StageDevice, policy: GatePolicy, now_s: float) -> str | None:
    """Why the device counts as failed; None if it does not."""
    if device.failure is not None:
        return device.failure
    return SILENT if not device.was_heard and _is_over(device, policy, now_s) else None


def is_outstanding(device: StageDevice, policy: GatePolicy, now_s: float) -> bool:
    """Whether the device may still report a latency in time. A slow device reports later, so early ones mislead."""
    return device.field is None and not _is_over(device, policy, now_s)


def _is_over(device: StageDevice, policy: GatePolicy, now_s: float) -> bool:
    return now_s - device.waits_since_s > policy.deadline_s


def _judged_latency(policy: GatePolicy, reporting: Sequence[StageDevice], expected: int) -> Verdict:
    """Compare each device with its reference, p50 and p95 separately: both must be shown to be not worse."""
    needed = min(policy.min_devices, expected)
    if len(reporting) < needed or not reporting:
        return Verdict("wait", f"{len(reporting)} devices have reported latencies, {max(needed, 1)} are needed")
    pairs = [(device.field, device.reference) for device in reporting if device.field and device.reference]
    if not pairs:
        return Verdict("advance", "no device has a latency to compare with")
    factor = 1 + policy.tolerance
    within_p50 = sum(field.p50_s <= factor * reference.p50_s for field, reference in pairs)
    within_p95 = sum(field.p95_s <= factor * reference.p95_s for field, reference in pairs)
    quantiles = (("p50", within_p50), ("p95", within_p95))
    for name, within in quantiles:
        # Half of the error for each of the two quantiles, since one of them suffices.
        if shown(len(pairs) - within, len(pairs), (1 + policy.confidence) / 2):
            beyond = f"{len(pairs) - within} of {len(pairs)} devices"
            return Verdict(
                "stop", f"{name} of {beyond} is more than {100 * policy.tolerance:g}% above the expected one"
            )
    for name, within in quantiles:
        if not _is_shown_within(policy, within, len(pairs), expected):
            told = f"{name} of {within} of {len(pairs)} devices is as expected"
            return Verdict("wait", f"{told}, which does not show it with a confidence of {policy.confidence:g}")
    return Verdict("advance", f"latencies of {len(pairs)} devices are as expected")


def _is_shown_within(policy: GatePolicy, within: int, total: int, expected: int) -> bool:
    """Stages that are too small for the confidence ask for all of their devices; the next stage shows more."""
    if not can_show(expected, policy.confidence):
        return within == total
    return shown(within, total, policy.confidence)
