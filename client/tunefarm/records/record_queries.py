"""Queries of this machine's store for the record commands."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tunefarm.confined.call import call
from tunefarm.confined.record_view import ENTRY as VIEW_ENTRY
from tunefarm.confined.record_view import RecordView, ViewRequest
from tunefarm.options.device_class_option import device_class_of_text
from tunefarm.terminal.named_id import ASKED_FOR, require_one
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.artifact import ArtifactManifest
from tunefarm_schemas.tuning.record import RecordKey, RecordMatch, RecordStatus, TuningRecord
from tunefarm_services.exchange.claims import claim, kept, key_without_place
from tunefarm_services.store import LOCAL_TENANT, NotFound, Store
from tunefarm_services.store.records.artifact_repository import ArtifactRepository
from tunefarm_services.store.records.record_repository import RecordRepository

if TYPE_CHECKING:
    from tunefarm.intake.intake_request import IntakeRequest
    from tunefarm.local.machine import LocalMachine
    from tunefarm.records.record_place import ModuleQuery


PAGE: Final = 1000


def listed(records: RecordRepository, status: RecordStatus | None, limit: int) -> Sequence[TuningRecord]:
    """Records, the newest first, at most ``limit``."""
    found: list[TuningRecord] = []
    after: str | None = None
    while page := records.page(LOCAL_TENANT, status=status, limit=PAGE, after=after):
        found += page
        after = page[-1].record_id
    return sorted(found, key=lambda record: record.created_at, reverse=True)[:limit]


def named_record(store: Store | None, record_id: str) -> TuningRecord:
    """The record whose id is, or begins with, ``record_id``.

    Raises:
        BadInput: no record matches, or several do.
    """
    found: list[TuningRecord] = []
    if store is not None and record_id:
        try:
            return store.records.get(LOCAL_TENANT, record_id)
        except NotFound:
            found = store.records.page(LOCAL_TENANT, limit=ASKED_FOR, id_prefix=record_id)
    require_one("record", record_id, [record.record_id for record in found])
    return found[0]


def best_matches(machine: "LocalMachine", query: "ModuleQuery") -> Sequence[RecordMatch]:
    """The best records for a module. Exact ones are for this machine, unless the query names another device class.

    Raises:
        BadInput: the module or the target is invalid.
    """
    answer = machine.understand(query.request())
    own = machine.farm.device.device_class.device_class_id
    [workload] = machine.recognised(answer.workloads, with_schedules=False)
    key = RecordKey(
        workload_id=workload.workload_id,
        target_id=answer.target.target_id,
        device_class_id=own if query.device_class is None else device_class_of_text(query.device_class, [own]),
        code_generator=machine.farm.code_generator,
        protocol_id=query.protocol_id,
        abi=query.abi,
    )
    return machine.store.best_records.matches(LOCAL_TENANT, key)


def published(machine: "LocalMachine", request: "IntakeRequest", latency_s: float) -> TuningRecord:
    """Store the schedule of a request as a claimed record.

    Raises:
        BadInput: the module, the target or the schedule is invalid, or the schedule does not apply.
    """
    answer = machine.understand(request)
    [workload] = machine.recognised(answer.workloads, with_schedules=True)
    [trace] = answer.seed_traces
    key = key_without_place(workload.workload_id, answer.target.target_id)
    record, _ = kept(machine.store, claim(LOCAL_TENANT, key, trace, latency_s, "published"), workload, answer.target)
    return record


def schedule_view(machine: "LocalMachine", record: TuningRecord) -> RecordView:
    """Apply a record's trace in a confined child, and return the scheduled function as text.

    Raises:
        BadInput: the trace no longer applies.
    """
    workload = machine.store.workloads.get(LOCAL_TENANT, record.key.workload_id)
    request = ViewRequest(module_json=workload.module_json, trace=record.trace)
    return call(machine.zygote, VIEW_ENTRY, request, RecordView, field="record")


def stored_artifact(artifacts: ArtifactRepository, record: TuningRecord) -> tuple[ArtifactManifest, bytes]:
    """The artifact of a record.

    Raises:
        BadInput: the record has no artifact, because it was never verified here.
    """
    manifests = artifacts.newest_first(LOCAL_TENANT, record_id=record.record_id)
    if not manifests:
        fix = "Tune its workload here, with the record as a claim in the store: tunefarm tune MODULE"
        raise BadInput("record", f"{record.record_id} is {record.status.value} and was never built here.", fix)
    return artifacts.get(LOCAL_TENANT, manifests[0].artifact_id)
