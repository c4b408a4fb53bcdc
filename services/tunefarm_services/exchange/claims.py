"""Claims: records that were not measured here. They may start a search, and nothing unmeasured is shipped."""

from typing import Final, Literal

from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.frozen import canonical_json, digest
from tunefarm_schemas.tuning.record import RecordKey, RecordStatus, TuningRecord
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_services.store import NotFound, Store, StoreConflict

UNKNOWN: Final = "unknown"
"""In the key of a claim: nobody tells on which device, with which code generator or how its time was taken."""
Source = Literal["imported", "published"]
_REASONS: Final[dict[Source, str]] = {
    "imported": "imported from a TVM database; not measured here",
    "published": "published by hand; not measured here",
}


def key_without_place(workload_id: str, target_id: str) -> RecordKey:
    """The key of a claim of which no more is told than what it is for."""
    return RecordKey(
        workload_id=workload_id,
        target_id=target_id,
        device_class_id=UNKNOWN,
        code_generator=UNKNOWN,
        protocol_id=UNKNOWN,
        abi="stable",
    )


def claim(tenant: str, key: RecordKey, trace: Trace, latency_s: float, source: Source) -> TuningRecord:
    """A record of a schedule that somebody says takes ``latency_s``. The same schedule for the same key has one id."""
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
    """The stored claim, and whether this call has stored it. The first claim of a schedule stays as it is."""
    try:
        return store.records.get(record.tenant, record.record_id), False
    except NotFound:
        store.workloads.put(record.tenant, workload)
        store.targets.put(record.tenant, target)
    try:
        return store.records.put(record.tenant, None, record), True
    except StoreConflict:  # somebody else published it just now
        return store.records.get(record.tenant, record.record_id), False
