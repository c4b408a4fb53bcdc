"""Records that somebody else made: published by hand, imported from TVM, written for TVM."""

from typing import Final

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.frozen import canonical_json, digest
from tunefarm_schemas.record import RecordKey, RecordStatus, TuningRecord
from tunefarm_schemas.target import Target
from tunefarm_schemas.trace import Trace
from tunefarm_schemas.workload import Workload
from tunefarm_services.api.bodies.record import DatabaseBody, ExportBody, PublishBody
from tunefarm_services.api.intake_messages import DatabaseEntries, DatabaseEntry, DatabaseText
from tunefarm_services.api.modules import target_question, trace_text, understood
from tunefarm_services.api.parts import Parts
from tunefarm_services.api.views.report import ExportedDatabase, ImportReport, RefusedLine
from tunefarm_services.known_workloads import recognised
from tunefarm_services.store import NotFound, Store, StoreConflict

UNKNOWN: Final = "unknown"
"""In the key of an imported record: a TVM database tells neither the device nor how time was taken."""
MOST_EXPORTED: Final = 10_000
PAGE: Final = 500


def publish(parts: Parts, tenant: str, body: PublishBody) -> tuple[TuningRecord, bool]:
    """Keep a claim, and whether it is new.

    Raises:
        BadInput: the module, the target or the trace cannot be used, or the trace does not apply.
    """
    question = target_question(parts, tenant, body.target)
    answer = understood(parts, tenant, [body], question, seed_traces=[trace_text(body.trace)])
    assert answer.target is not None
    key = RecordKey(
        workload_id=answer.workloads[0].workload.workload_id,
        target_id=answer.target.target_id,
        device_class_id=body.device_class_id,
        code_generator=body.code_generator,
        protocol_id=body.protocol_id,
        abi="stable",
    )
    reason = "published by hand; not measured here"
    record = _claim(tenant, key, answer.seed_traces[0], body.latency_s, source="published", reason=reason)
    return _kept(parts.store, record, answer.workloads[0].workload, answer.target)


def import_database(parts: Parts, tenant: str, body: DatabaseBody) -> ImportReport:
    """Keep every usable line of a TVM database as a claim. Raises BadInput where reading it ends the child."""
    entries = parts.intake.read_database(DatabaseText(workloads=body.workloads, records=body.records))
    known = recognised(parts.store, tenant, entries.workloads, parts.intake.same, with_schedules=True)
    by_id = {given.workload_id: workload for given, workload in zip(entries.workloads, known, strict=True)}
    taken: list[str] = []
    for entry, given, target in entries.whole():
        workload = by_id[given.workload_id]
        record, is_new = _kept(parts.store, _imported(tenant, entry, workload.workload_id), workload, target)
        if is_new:
            taken.append(record.record_id)
    return ImportReport(
        record_ids=tuple(taken),
        already_there=len(entries.accepted) - len(taken),
        refusals=tuple(RefusedLine(file=r.file, line=r.line, reason=r.reason) for r in entries.refused),
    )


def export_database(parts: Parts, tenant: str, body: ExportBody) -> ExportedDatabase:
    """Records in the form of a TVM database.

    Raises:
        NotFound: a record that is named is not there.
        BadInput: one has an ABI that TVM's database cannot describe, or there are too many.
    """
    records = _named(parts.store, tenant, body) if body.record_ids else _all(parts.store, tenant, body)
    workloads: dict[str, Workload] = {}
    targets: dict[str, Target] = {}
    entries = []
    for record in records:
        key = record.key
        if key.workload_id not in workloads:
            workloads[key.workload_id] = parts.store.workload(tenant, key.workload_id)
        if key.target_id not in targets:
            targets[key.target_id] = parts.store.target(key.target_id, tenant=tenant)
        entries.append(
            DatabaseEntry(
                workload_id=key.workload_id,
                target_id=key.target_id,
                trace=record.trace,
                latency_s=record.latency_s,
            )
        )
    text = parts.intake.write_database(
        DatabaseEntries(workloads=tuple(workloads.values()), targets=tuple(targets.values()), accepted=tuple(entries))
    )
    return ExportedDatabase(workloads=text.workloads, records=text.records, exported=len(entries))


def _imported(tenant: str, entry: DatabaseEntry, workload_id: str) -> TuningRecord:
    key = RecordKey(
        workload_id=workload_id,
        target_id=entry.target_id,
        device_class_id=UNKNOWN,
        code_generator=UNKNOWN,
        protocol_id=UNKNOWN,
        abi="stable",
    )
    reason = "imported from a TVM database; not measured here"
    return _claim(tenant, key, entry.trace, entry.latency_s, source="imported", reason=reason)


def _claim(tenant: str, key: RecordKey, trace: Trace, latency_s: float, *, source: str, reason: str) -> TuningRecord:
    return TuningRecord(
        record_id=digest(canonical_json([key.model_dump(), trace.trace_id]))[:32],
        tenant=tenant,
        key=key,
        trace=trace,
        latency_s=latency_s,
        interval_s=None,
        untuned_latency_s=None,
        status=RecordStatus.CLAIMED,
        status_reason=reason,
        source=source,
        exploration_id=None,
        created_at=utc_now(),
    )


def _kept(store: Store, record: TuningRecord, workload: Workload, target: Target) -> tuple[TuningRecord, bool]:
    """The stored record, and whether this call has stored it. The first claim of a schedule stays as it is."""
    try:
        return store.record(record.tenant, record.record_id), False
    except NotFound:
        store.put_workload(record.tenant, workload)
        store.put_target(record.tenant, target)
    try:
        return store.put_record(record.tenant, None, record), True
    except StoreConflict:  # somebody else published it just now
        return store.record(record.tenant, record.record_id), False


def _named(store: Store, tenant: str, body: ExportBody) -> list[TuningRecord]:
    records = [store.record(tenant, record_id) for record_id in dict.fromkeys(body.record_ids)]
    packed = [record for record in records if record.key.abi != "stable"]
    if packed:
        problem = f"{packed[0].record_id} has the packed ABI, which TVM's database cannot describe."
        raise BadInput("record_ids", problem, "Export records of the stable ABI.")
    return records


def _all(store: Store, tenant: str, body: ExportBody) -> list[TuningRecord]:
    statuses = [RecordStatus.VERIFIED, *([RecordStatus.CLAIMED] if body.include_claimed else [])]
    found: list[TuningRecord] = []
    for status in statuses:
        after: str | None = None
        while True:
            page = store.records_page(
                tenant,
                workload_id=body.workload_id,
                target_id=body.target_id,
                status=status,
                after=after,
                limit=PAGE,
            )
            found += [record for record in page if record.key.abi == "stable"]
            if len(found) > MOST_EXPORTED:
                fix = "Export one workload at a time: workload_id."
                raise BadInput("workload_id", f"there are more than {MOST_EXPORTED} records.", fix)
            if len(page) < PAGE:
                break
            after = page[-1].record_id
    return found
