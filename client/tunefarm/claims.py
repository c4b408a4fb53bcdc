"""Claims: records that were not measured here. They may start a search, and nothing unmeasured is shipped."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from tunefarm.intake.intake_request import IntakeRequest
from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.frozen import canonical_json, digest
from tunefarm_schemas.record import RecordKey, RecordStatus, TuningRecord
from tunefarm_schemas.target import Target
from tunefarm_schemas.trace import Trace
from tunefarm_schemas.workload import Workload
from tunefarm_services.store import LOCAL_TENANT, NotFound, Store

if TYPE_CHECKING:
    from tunefarm.machine import Machine

UNKNOWN: Final = "unknown"
"""In the key of a claim: nobody tells on which device, with which code generator and how its time was taken."""


@dataclass(frozen=True)
class Claim:
    """A schedule, proven to apply to its workload, with the latency in seconds that somebody says it has."""

    workload: Workload
    target: Target
    trace: Trace
    latency_s: float


def published(machine: "Machine", request: IntakeRequest, latency_s: float) -> TuningRecord:
    """Keep the one schedule of a request as a claim.

    Raises:
        BadInput: the module, the target or the schedule cannot be used, or the schedule does not apply.
    """
    answer = machine.understand(request)
    [workload] = machine.recognised(answer.workloads, with_schedules=True)
    [trace] = answer.seed_traces
    claim = Claim(workload, answer.target, trace, latency_s)
    record, _ = kept(machine.store, claim, source="published", reason="published by hand; not measured here")
    return record


def kept(
    store: Store, claim: Claim, *, source: Literal["imported", "published"], reason: str
) -> tuple[TuningRecord, bool]:
    """The stored record, and whether this call has stored it. The first claim of a schedule stays as it is."""
    record = _record(claim, source, reason)
    try:
        return store.record(LOCAL_TENANT, record.record_id), False
    except NotFound:
        store.put_workload(LOCAL_TENANT, claim.workload)
        store.put_target(LOCAL_TENANT, claim.target)
        return store.put_record(LOCAL_TENANT, None, record), True


def _record(claim: Claim, source: str, reason: str) -> TuningRecord:
    key = RecordKey(
        workload_id=claim.workload.workload_id,
        target_id=claim.target.target_id,
        device_class_id=UNKNOWN,
        code_generator=UNKNOWN,
        protocol_id=UNKNOWN,
        abi="stable",
    )
    return TuningRecord(
        record_id=digest(canonical_json([key.model_dump(), claim.trace.trace_id]))[:32],
        tenant=LOCAL_TENANT,
        key=key,
        trace=claim.trace,
        latency_s=claim.latency_s,
        interval_s=None,
        untuned_latency_s=None,
        status=RecordStatus.CLAIMED,
        status_reason=reason,
        source=source,
        exploration_id=None,
        created_at=utc_now(),
    )
