"""Devices and lanes; only the operator sees fields that identify hosts."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tunefarm_schemas.farm.lane import Lane, LaneKind, LaneRequest, LaneState
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.roofline import DevicePeaks
from tunefarm_schemas.tuning.device import DeviceClass, ReferenceKernelTimes

ID_CHARACTERS = 16


class WorkerView(BaseModel):
    """A lane. ``host_name`` and ``worker_name`` are null for callers without ``devices:admin``."""

    model_config = ConfigDict(frozen=True)

    worker_id: str
    device_id: str
    lane_id: str | None
    worker_name: str | None
    host_name: str | None
    device_class_id: str
    code_generator: str
    kind: LaneKind
    tvm_version: str
    protocol_version: int
    software_version: str
    state: LaneState
    reason: str
    requested: LaneRequest
    cores: int
    room: int
    in_flight: int
    started_at: str
    seen_at: str

    @classmethod
    def of(cls, lane: Lane, requested: LaneRequest, *, with_names: bool) -> "WorkerView":
        """The view of ``lane``."""
        return cls(
            worker_id=worker_id_of(lane),
            device_id=device_id_of(lane),
            lane_id=lane.lane_id if with_names else None,
            worker_name=lane.worker_name if with_names else None,
            host_name=lane.host_name if with_names else None,
            device_class_id=lane.device.device_class.device_class_id,
            code_generator=lane.code_generator,
            kind=lane.kind,
            tvm_version=lane.tvm_version,
            protocol_version=lane.protocol_version,
            software_version=lane.software_version,
            state=lane.state,
            reason=lane.reason,
            requested=requested,
            cores=len(lane.cores),
            room=lane.room,
            in_flight=lane.in_flight,
            started_at=lane.started_at,
            seen_at=lane.seen_at,
        )


class DeviceView(BaseModel):
    """A device and the states of its lanes."""

    model_config = ConfigDict(frozen=True)

    device_id: str
    device_class_id: str
    device_class: DeviceClass
    reference: ReferenceKernelTimes
    peaks: DevicePeaks | None = None
    kind: LaneKind
    code_generators: tuple[str, ...]
    host_name: str | None
    lanes: int
    lane_states: dict[LaneState, int]
    takes_work: bool
    room: int
    in_flight: int
    seen_at: str

    @classmethod
    def of(cls, lanes: Sequence[Lane], *, with_names: bool) -> "DeviceView":
        """The view of the device that all ``lanes`` are on."""
        newest = max(lanes, key=lambda lane: lane.seen_at)
        return cls(
            device_id=device_id_of(newest),
            device_class_id=newest.device.device_class.device_class_id,
            device_class=newest.device.device_class,
            reference=newest.device.reference,
            peaks=newest.device.peaks,
            kind=newest.kind,
            code_generators=tuple(sorted({lane.code_generator for lane in lanes})),
            host_name=newest.host_name if with_names else None,
            lanes=len(lanes),
            lane_states=dict(Counter(lane.state for lane in lanes)),
            takes_work=any(lane.state.takes_work for lane in lanes),
            room=sum(lane.room for lane in lanes),
            in_flight=sum(lane.in_flight for lane in lanes),
            seen_at=newest.seen_at,
        )


class LaneChange(BaseModel):
    """A change of a lane's state, or a request to it.

    Attributes:
        kind: ``state`` or ``request``.
        value: the new state, or what was requested.
        token_id: of who requested it; null for callers without ``devices:admin``.
    """

    model_config = ConfigDict(frozen=True)

    worker_id: str
    at: str
    kind: Literal["state", "request"]
    value: str
    reason: str
    token_id: str | None


class ReferenceSample(BaseModel):
    """The times of the reference kernels at one time."""

    model_config = ConfigDict(frozen=True)

    at: str
    times: ReferenceKernelTimes


class DeviceHistory(BaseModel):
    """How a device fared: its calibration, the times of its reference kernels since then, and changes of its lanes.

    Attributes:
        reference: the times that its class was chosen by, and that checks compare with.
        samples: the oldest first, one for each five minutes of the last week.
        changes: the newest first.
    """

    model_config = ConfigDict(frozen=True)

    device_id: str
    reference: ReferenceKernelTimes
    samples: tuple[ReferenceSample, ...]
    changes: tuple[LaneChange, ...]


def worker_id_of(lane: Lane) -> str:
    """An id of the lane that does not reveal its host."""
    return worker_id_of_lane_id(lane.lane_id)


def worker_id_of_lane_id(lane_id: str) -> str:
    """The same, by the lane's id."""
    return digest(f"lane {lane_id}")[:ID_CHARACTERS]


def device_id_of(lane: Lane) -> str:
    """An id of the lane's device that does not reveal its host."""
    fingerprint = lane.device.fingerprint
    return digest(f"device {fingerprint} {lane.device.device_class.device_class_id}")[:ID_CHARACTERS]


def by_device(lanes: Iterable[Lane]) -> dict[str, list[Lane]]:
    """Group lanes by the id of their device."""
    found: dict[str, list[Lane]] = {}
    for lane in lanes:
        found.setdefault(device_id_of(lane), []).append(lane)
    return dict(sorted(found.items()))
