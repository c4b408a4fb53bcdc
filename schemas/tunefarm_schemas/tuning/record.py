"""Tuning records: a schedule, its latency, and how reliable it is."""

from enum import StrEnum
from typing import Final, Literal

from pydantic import Field

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.tuning.workload import Abi


class RecordStatus(StrEnum):
    """How reliable a record is."""

    CLAIMED = "claimed"
    VERIFIED = "verified"
    RETRACTED = "retracted"


class MatchKind(StrEnum):
    """Which parts of a record's key matched a query."""

    EXACT = "exact"
    SAME_WORKLOAD_OTHER_DEVICE = "same_workload_other_device"
    SIMILAR = "similar"


KeyPart = Literal["workload", "target", "device_class", "code_generator", "protocol", "abi"]


class RecordKey(Frozen):
    """Identifies what a record is valid for: it may be reused if and only if all fields are equal."""

    workload_id: str
    target_id: str
    device_class_id: str
    code_generator: str
    protocol_id: str
    abi: Abi

    def differences(self, other: "RecordKey") -> tuple[KeyPart, ...]:
        """The fields in which two keys differ."""
        pairs: tuple[tuple[KeyPart, str, str], ...] = (
            ("workload", self.workload_id, other.workload_id),
            ("target", self.target_id, other.target_id),
            ("device_class", self.device_class_id, other.device_class_id),
            ("code_generator", self.code_generator, other.code_generator),
            ("protocol", self.protocol_id, other.protocol_id),
            ("abi", self.abi, other.abi),
        )
        return tuple(part for part, mine, theirs in pairs if mine != theirs)


BUSY: Final = 0.1
"""Share of the time in which other processes used a kernel's core that marks a record busy; less is normal."""
ENOUGH_PROCESSES: Final = 7
"""Fresh processes that a record's interval comes from, unless its function hardly matters to its model."""
_UNLIKELY: Final = 1.5
"""Latencies in fresh processes on a quiet host rarely differ by this factor."""


class TuningRecord(Frozen):
    """A trace with its measured latency.

    ``interval_s`` holds the fastest and the slowest fresh process of the exported artifact; None until that was taken.
    ``foreign_load`` is the share of the time for which other processes kept its threads from a core meanwhile; None
    where that is not known, as for claims and for what was recorded before it was looked at. ``untuned_is_estimate``:
    the untuned function takes so long that its latency follows from a part of its steps. ``processes`` is the number of
    fresh processes; None where that is not known.
    """

    record_id: str
    tenant: str
    key: RecordKey
    trace: Trace
    latency_s: float = Field(gt=0, allow_inf_nan=False)
    interval_s: tuple[float, float] | None
    untuned_latency_s: float | None
    status: RecordStatus
    status_reason: str
    source: str
    """``tuned``, ``imported`` or ``published``."""
    exploration_id: str | None
    created_at: str
    """RFC 3339, UTC."""
    foreign_load: float | None = Field(default=None, ge=0, le=1)
    untuned_is_estimate: bool = False
    processes: int | None = Field(default=None, gt=0)

    @property
    def was_busy(self) -> bool:
        """Whether it was measured while other processes used the device."""
        return self.foreign_load is not None and self.foreign_load >= BUSY

    @property
    def is_doubtful(self) -> bool:
        """Whether it must be measured again before it is used: other processes disturbed it, or seem to have."""
        if self.was_busy or self.status is not RecordStatus.VERIFIED:
            return self.was_busy
        low_s, high_s = self.interval_s or (1.0, 1.0)
        return self.foreign_load is None and high_s > _UNLIKELY * low_s


class RecordMatch(Frozen):
    """An answer to a query for records.

    ``differs`` names the fields of the record's key that differ from the query; a claim's are often unknown.
    """

    record: TuningRecord
    match: MatchKind
    differs: tuple[KeyPart, ...] = ()
