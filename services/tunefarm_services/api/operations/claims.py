"""Records from outside: published by users, imported from TVM, exported for TVM."""

import io
from collections.abc import Iterator
from typing import Final

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.record import RecordKey, RecordStatus, TuningRecord
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_schemas.views.database import ExportedDatabase, ImportReport
from tunefarm_services.api.bodies.record import DatabaseBody, ExportBody, PublishBody
from tunefarm_services.api.intake.intake_messages import DatabaseEntries, DatabaseEntry
from tunefarm_services.api.operations.module_intake import target_question, trace_text, understood
from tunefarm_services.api.operations.parts import Parts
from tunefarm_services.exchange.claims import claim, kept
from tunefarm_services.exchange.database_export import FIX, holds, left_out
from tunefarm_services.exchange.database_import import take_in
from tunefarm_services.store.records.record_repository import RecordRepository

MAX_EXPORTED: Final = 10_000
PAGE: Final = 500


def publish(parts: Parts, tenant: str, body: PublishBody) -> tuple[TuningRecord, bool]:
    """Store a claim; also return whether it is new.

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
    record = claim(tenant, key, answer.seed_traces[0], body.latency_s, "published")
    return kept(parts.store, record, answer.workloads[0].workload, answer.target)


def import_database(parts: Parts, tenant: str, body: DatabaseBody) -> ImportReport:
    """Store every valid line of a TVM database as a claim. Raises ForkFailed if no child could be forked."""
    callees = parts.settings.callees.get(tenant, ())
    read = parts.intake.read_database(_lines(body.workloads), _lines(body.records), callees)
    return take_in(parts.store, tenant, read, parts.intake.same)


def _lines(text: str) -> Iterator[str]:
    return (line.rstrip("\r\n") for line in io.StringIO(text))


def export_database(parts: Parts, tenant: str, body: ExportBody) -> ExportedDatabase:
    """Export records as a TVM database.

    Raises:
        NotFound: one of the named records does not exist.
        BadInput: one has an ABI that TVM's database cannot describe, or there are too many.
    """
    chosen = _named if body.record_ids else _all
    records, others = chosen(parts.store.records, tenant, body)
    workloads: dict[str, Workload] = {}
    targets: dict[str, Target] = {}
    entries = []
    for record in records:
        key = record.key
        if key.workload_id not in workloads:
            workloads[key.workload_id] = parts.store.workloads.get(tenant, key.workload_id)
        if key.target_id not in targets:
            targets[key.target_id] = parts.store.targets.get(key.target_id, tenant=tenant)
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
    return ExportedDatabase(
        workloads=text.workloads, records=text.records, exported=len(entries), left_out=left_out(others)
    )


def _named(stored: RecordRepository, tenant: str, body: ExportBody) -> tuple[list[TuningRecord], list[TuningRecord]]:
    records = [stored.get(tenant, record_id) for record_id in dict.fromkeys(body.record_ids)]
    packed = [record for record in records if not holds(record)]
    if packed:
        problem = f"{packed[0].record_id} has the packed ABI, which TVM's database cannot describe."
        raise BadInput("record_ids", problem, FIX)
    return records, []


def _all(stored: RecordRepository, tenant: str, body: ExportBody) -> tuple[list[TuningRecord], list[TuningRecord]]:
    """What is exported, and what is left out."""
    found: list[TuningRecord] = []
    others: list[TuningRecord] = []
    for status in (RecordStatus.VERIFIED, RecordStatus.CLAIMED):
        is_asked_for = status is RecordStatus.VERIFIED or body.include_claimed
        after: str | None = None
        while True:
            page = stored.page(
                tenant,
                workload_id=body.workload_id,
                target_id=body.target_id,
                status=status,
                after=after,
                limit=PAGE,
            )
            for record in page:
                (found if is_asked_for and holds(record) else others).append(record)
            if len(found) > MAX_EXPORTED:
                fix = "Export one workload at a time: workload_id."
                raise BadInput("workload_id", f"there are more than {MAX_EXPORTED} records.", fix)
            if len(page) < PAGE:
                break
            after = page[-1].record_id
    return found, others
