"""Knowledge worth keeping: a schedule, its time, and how sure that is."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.trace import Trace
from tunefarm_schemas.workload import Abi


class RecordStatus(StrEnum):
    """How far a record may be trusted."""

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
    """When may a record be reused? Exactly when all of these are the same."""

    workload_id: str
    target_id: str
    device_class_id: str
    code_generator: str
    protocol_id: str
    abi: Abi

    def differences(self, other: "RecordKey") -> tuple[KeyPart, ...]:
        """The parts in which two keys are not the same."""
        pairs: tuple[tuple[KeyPart, str, str], ...] = (
            ("workload", self.workload_id, other.workload_id),
            ("target", self.target_id, other.target_id),
            ("device_class", self.device_class_id, other.device_class_id),
            ("code_generator", self.code_generator, other.code_generator),
            ("protocol", self.protocol_id, other.protocol_id),
            ("abi", self.abi, other.abi),
        )
        return tuple(part for part, mine, theirs in pairs if mine != theirs)


class TuningRecord(Frozen):
    """A trace with its measured latency.

    ``interval_s`` is the spread of the exported artifact's latency over fresh processes; None until that was taken.
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


class RecordMatch(Frozen):
    """An answer to a query for records.

    ``differs`` names the parts of the record's key that are not those of the query; a claim's are often unknown.
    """

    record: TuningRecord
    match: MatchKind
    differs: tuple[KeyPart, ...] = ()
