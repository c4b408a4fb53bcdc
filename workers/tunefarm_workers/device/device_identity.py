"""The device class of a device."""

import math

from tunefarm_schemas.tuning.device import Device, DeviceClass, ReferenceKernelTimes
from tunefarm_workers.device.cpu_identity import CpuIdentity, host_fingerprint
from tunefarm_workers.device.host_name import host_name

_BUCKET_RATIO = 2.0
_UNIT_S = 1e-6
_MAX_SHIFT_BUCKETS = 0.85
"""How far a time may move before a known device changes its class."""


def device_of(identity: CpuIdentity, times: ReferenceKernelTimes, known: Device | None) -> Device:
    """Return the device of this host."""
    return classified("cpu", identity, host_fingerprint(identity), host_name(), times, known)


def classified(
    kind: str,
    identity: CpuIdentity,
    fingerprint: str,
    host_name: str,
    times: ReferenceKernelTimes,
    known: Device | None,
) -> Device:
    """Return the device of an identity and its reference times.

    A ``known`` device keeps its class unless its times moved by most of a bucket: noise at the edge of a bucket must
    not change the class.
    """
    if known is not None and known.fingerprint == fingerprint and not _moved(known.reference, times):
        return known
    return Device(
        fingerprint=fingerprint,
        host_name=host_name,
        device_class=DeviceClass(
            kind=kind,
            **identity.model_dump(),
            compute_bucket=round(_bucket(times.compute_s)),
            bandwidth_bucket=round(_bucket(times.bandwidth_s)),
            launch_bucket=round(_bucket(times.launch_s)),
        ),
        reference=times,
    )


def _moved(before: ReferenceKernelTimes, now: ReferenceKernelTimes) -> bool:
    pairs = (
        (before.compute_s, now.compute_s),
        (before.bandwidth_s, now.bandwidth_s),
        (before.launch_s, now.launch_s),
    )
    return any(abs(_bucket(one) - _bucket(other)) > _MAX_SHIFT_BUCKETS for one, other in pairs)


def _bucket(seconds: float) -> float:
    return math.log(max(seconds, 1e-9) / _UNIT_S, _BUCKET_RATIO)
