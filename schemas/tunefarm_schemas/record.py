"""Knowledge worth keeping: a schedule, its time, and how sure that is."""

from enum import StrEnum

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


class RecordKey(Frozen):
    """When may a record be reused? Exactly when all of these are the same."""

    workload_id: str
    target_id: str
    device_class_id: str
    code_generator: str
    protocol_id: str
    abi: Abi


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
    """An answer to a query for records."""

    record: TuningRecord
    match: MatchKind
