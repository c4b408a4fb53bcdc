"""Lanes: one device or a part of one, with the process that serves it."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

from pydantic import Field

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.farm.processor import Processor
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.device import Device, ReferenceKernelTimes

OPERATOR_TENANT: Final = "operator"
"""The tenant that owns all lanes. Every tenant may use them; none sees their host names."""

LaneKind = Literal["cpu", "cuda", "rpc", "compile"]
"""A CPU, a GPU, a board behind RPC, or a host that compiles for others and measures nothing."""


KINDS_FOR_TARGET: Final[Mapping[str, tuple[LaneKind, ...]]] = MappingProxyType(
    {"llvm": ("cpu", "rpc"), "c": ("rpc",), "cuda": ("cuda",)}
)
"""Kinds of lanes that can run code for a kind of target, preferred kind first."""


def unmeasured_kind(kind: str) -> BadInput | None:
    """Why no worker of this version can measure targets of a kind, and what serves instead; None if one can."""
    if kind in KINDS_FOR_TARGET:
        return None
    problem = f"no worker of this version measures targets of the kind {kind}; they measure processors and NVIDIA GPUs."
    return BadInput("target", problem, "Name a target of the kind cuda or llvm: nvidia-a100 and x86-64-v3 are two.")


LOCAL_WORKER: Final = "this host"
"""Worker name of a lane that a tuner runs on its own host. Threads beyond its cores share them there."""


class LaneState(StrEnum):
    """Whether a lane gets work, and if not, why."""

    STARTING = "starting"
    READY = "ready"
    BUSY = "busy"
    DRAINING = "draining"
    DRAINED = "drained"
    QUARANTINED = "quarantined"
    MAINTENANCE = "maintenance"
    REFUSED = "refused"
    LOST = "lost"

    @property
    def takes_work(self) -> bool:
        """Whether candidates may be sent to it now."""
        return self in {LaneState.READY, LaneState.BUSY}


class LaneRequest(StrEnum):
    """The operator's request to a lane."""

    NONE = "none"
    DRAIN = "drain"
    RESUME = "resume"
    QUARANTINE = "quarantine"
    MAINTENANCE = "maintenance"


class ReferenceCheck(Frozen):
    """The times of the reference kernels in a check of the device, and when that was."""

    times: ReferenceKernelTimes
    checked_at: str


class Lane(Frozen):
    """A lane as its worker last reported it. Times are RFC 3339, UTC.

    ``cores`` are the logical processors of the host that it owns; ``room`` is how many candidates it accepts at once,
    and ``in_flight`` how many it has. ``reason`` explains its state to the operator. ``processor`` runs the code; a
    worker that does not report one is assumed to run any.
    """

    lane_id: str = Field(max_length=200, pattern="^[^\\x00]+$")  # PostgreSQL cannot store NUL
    worker_name: str
    host_name: str
    device: Device
    code_generator: str
    kind: LaneKind
    tvm_version: str
    protocol_version: int
    software_version: str
    state: LaneState
    reason: str
    cores: tuple[int, ...]
    room: int = Field(ge=0)
    in_flight: int = Field(ge=0)
    started_at: str
    seen_at: str
    processor: Processor = Processor()
    last_check: ReferenceCheck | None = None
    """The latest check of the device; None before the first, or if the worker does not check its device."""
