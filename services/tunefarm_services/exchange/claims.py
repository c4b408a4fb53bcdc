"""Claims: records that were not measured here. They may seed a search; nothing unmeasured is delivered."""

from typing import Final, Literal

from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.frozen import canonical_json, digest
from tunefarm_schemas.tuning.record import RecordKey, RecordStatus, TuningRecord
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_services.store import NotFound, Store, StoreConflict

UNKNOWN: Final = "unknown"
"""Placeholder in the key of a claim, whose device, code generator and protocol are unknown."""
Source = Literal["imported", "published"]
_REASONS: Final[dict[Source, str]] = {
    "imported": "imported from a TVM database; not measured here",
    "published": "published by hand; not measured here",
}


def key_without_place(workload_id: str, target_id: str) -> RecordKey:
    """The key of a claim of which only the workload and the target are known."""
    return RecordKey(
        workload_id=workload_id,
        target_id=target_id,
        device_class_id=UNKNOWN,
        code_generator=UNKNOWN,
        protocol_id=UNKNOWN,
        abi="stable",
    )


def claim(tenant: str, key: RecordKey, trace: Trace, latency_s: float, source: Source) -> TuningRecord:
    """A record of a schedule with the claimed ``latency_s``. The same schedule and key always get the same id."""
    return TuningRecord(
        record_id=digest(canonical_json([key.model_dump(), trace.trace_id]))[:32],
        tenant=tenant,
        key=key,
        trace=trace,
        latency_s=latency_s,
        interval_s=None,
        untuned_latency_s=None,
        status=RecordStatus.CLAIMED,
        status_reason=_REASONS[source],
        source=source,
        exploration_id=None,
        created_at=utc_now(),
    )


def kept(store: Store, record: TuningRecord, workload: Workload, target: Target) -> tuple[TuningRecord, bool]:
    """The stored claim, and whether this call stored it. The first claim of a schedule is never overwritten."""
    try:
        return store.records.get(record.tenant, record.record_id), False
    except NotFound:
        store.workloads.put(record.tenant, workload)
        store.targets.put(record.tenant, target)
    try:
        return store.records.put(record.tenant, None, record), True
    except StoreConflict:  # another request published it meanwhile
        return store.records.get(record.tenant, record.record_id), False
