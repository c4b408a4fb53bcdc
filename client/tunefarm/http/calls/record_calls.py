"""Calls for records."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tunefarm.http.calls.named_calls import of_record
from tunefarm.http.calls.upload_calls import module_field, with_modules
from tunefarm.http.paging import listed
from tunefarm.http.request import Answer, Flow, Reply, Request
from tunefarm.intake.tvm_objects import TargetLike, module_text, target_field
from tunefarm.terminal.named_id import RECORD_ID_LENGTH
from tunefarm_schemas.frozen import JsonValue
from tunefarm_schemas.tuning.record import RecordMatch, RecordStatus, TuningRecord
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.tuning.workload import Abi
from tunefarm_schemas.views.database import ExportedDatabase, ImportReport
from tunefarm_schemas.views.record import CodeForm, RecordCode, RecordInField, RecordTrials

IMPORT_TIMEOUT_S: Final = 300.0


class _Matches(Answer):
    items: tuple[RecordMatch, ...]


def record(record_id: str) -> Flow[TuningRecord]:
    """A record, by its id or a prefix of it."""
    return of_record(record_id, _record)


def _record(record_id: str) -> Flow[TuningRecord]:
    reply: Reply = yield Request("GET", f"/records/{record_id}")
    return reply.read(TuningRecord)


def record_code(record_id: str, form: CodeForm = CodeForm.SCHEDULED) -> Flow[RecordCode]:
    """A text of the code of a record, given by its id or a prefix of it.

    Forms are the trace as Python, the scheduled function, the diff from the original to it, TIR after TVM's lowering,
    and the assembly of the library that ships.
    """

    def ask(whole_id: str) -> Flow[RecordCode]:
        query = {"form": CodeForm(form).value}
        reply: Reply = yield Request("GET", f"/records/{whole_id}/code", query=query)
        return reply.read(RecordCode)

    return of_record(record_id, ask)


def record_trials(record_id: str) -> Flow[RecordTrials]:
    """The fastest trials of the search that a record came from, and which of them are within its noise."""

    def ask(whole_id: str) -> Flow[RecordTrials]:
        reply: Reply = yield Request("GET", f"/records/{whole_id}/trials")
        return reply.read(RecordTrials)

    return of_record(record_id, ask)


def record_in_field(record_id: str) -> Flow[RecordInField]:
    """The measured latency of a record beside what edge devices report of the releases with its schedule."""

    def ask(whole_id: str) -> Flow[RecordInField]:
        reply: Reply = yield Request("GET", f"/records/{whole_id}/field")
        return reply.read(RecordInField)

    return of_record(record_id, ask)


def whole_record_id(record_id: str) -> Flow[str]:
    """Complete a prefix of a record's id. A complete id needs no request."""
    if len(record_id) >= RECORD_ID_LENGTH:
        return record_id
    return (yield from record(record_id)).record_id


def records(
    workload_id: str | None = None,
    target_id: str | None = None,
    device_class_id: str | None = None,
    status: RecordStatus | None = None,
    limit: int | None = 100,
) -> Flow[list[TuningRecord]]:
    """At most ``limit`` records ordered by id; all if None."""
    query = {
        "workload_id": workload_id,
        "target_id": target_id,
        "device_class_id": device_class_id,
        "status": None if status is None else status.value,
    }
    return listed("/records", TuningRecord, query, limit)


def best_records(
    module: Any = None,
    *,
    workload_id: str | None = None,
    function: str | None = None,
    target: TargetLike = None,
    device_class_id: str | None = None,
    code_generator: str | None = None,
    protocol_id: str | None = None,
    abi: Abi = "stable",
    limit: int = 8,
) -> Flow[list[RecordMatch]]:
    """The best records for a module or a stored workload, each with its kind of match; the most trustworthy first.

    ``module`` is an IRModule, a PrimFunc, te tensors, or TVM JSON.

    Only a record of the same device class, code generator, protocol and ABI is exact. Defaults: the service's only
    device class, that class's code generators, and the protocol with hot caches.
    """
    stored: Mapping[str, JsonValue] = {"workload_id": workload_id}
    which = stored if module is None else (yield from module_field(module_text(module)))
    body = {
        **which,
        "function": function,
        "target": target_field(target),
        "device_class_id": device_class_id,
        "code_generator": code_generator,
        "protocol_id": protocol_id,
        "abi": abi,
        "limit": limit,
    }
    request = Request("POST", "/records:best", body={n: v for n, v in body.items() if v is not None})
    reply = yield from with_modules([which], request)
    return list(reply.read(_Matches).items)


def publication(
    module: Any,
    *,
    function: str | None = None,
    target: TargetLike,
    trace: Trace,
    latency_s: float,
    name: str | None = None,
) -> Flow[TuningRecord]:
    """Publish a schedule of a module with its claimed latency in seconds.

    ``module`` is an IRModule, a PrimFunc, te tensors, or TVM JSON.
    """
    which = yield from module_field(module_text(module))
    chosen = {key: value for key, value in {"function": function, "name": name}.items() if value}
    body = {**which, "target": target_field(target), "trace": trace.text, "latency_s": latency_s, **chosen}
    reply = yield from with_modules([which], Request("POST", "/records", body=body, creates=True))
    return reply.read(TuningRecord)


def retraction(record_id: str, reason: str) -> Flow[None]:
    """Retract a record. It stays stored with the reason, and is never used again."""

    def ask(whole_id: str) -> Flow[None]:
        yield Request("POST", f"/records/{whole_id}:retract", body={"reason": reason})

    return of_record(record_id, ask)


def database_import(workloads: str, records: str) -> Flow[ImportReport]:
    """Import the usable lines of a TVM database, given as the text of its two files, as claimed records."""
    body = {"workloads": workloads, "records": records}
    reply: Reply = yield Request("POST", "/records:import", body=body, creates=True, timeout_s=IMPORT_TIMEOUT_S)
    return reply.read(ImportReport)


def database_export(
    record_ids: Sequence[str] = (), *, workload_id: str | None = None, include_claimed: bool = False
) -> Flow[ExportedDatabase]:
    """Export the named records, or all verified ones of the stable ABI, as the text of a TVM database's two files."""
    whole_ids = []
    for record_id in record_ids:
        whole_id = yield from whole_record_id(record_id)
        whole_ids.append(whole_id)
    body: dict[str, Any] = {"record_ids": whole_ids, "include_claimed": include_claimed}
    if workload_id is not None:
        body["workload_id"] = workload_id
    reply: Reply = yield Request("POST", "/records:export", body=body, timeout_s=IMPORT_TIMEOUT_S)
    return reply.read(ExportedDatabase)
