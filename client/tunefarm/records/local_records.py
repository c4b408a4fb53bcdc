"""The record commands' access to this machine's store."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tunefarm.artifact.artifact_folder import write_artifact
from tunefarm.confined.call import LIMITS, call
from tunefarm.confined.record_view import ENTRY as VIEW_ENTRY
from tunefarm.confined.record_view import RecordView, ViewRequest
from tunefarm.confined.tvm_exchange import WRITE_ENTRY, Entries, Entry, WrittenDatabase
from tunefarm.options.device_class_option import device_class_of_text
from tunefarm.options.job_options import output_folder
from tunefarm.records.record_place import ModuleQuery, Written
from tunefarm.records.tvm_database_folder import database_lines, write_database
from tunefarm.terminal.named_id import ASKED_FOR, require_one
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.kernel_library.rules import LibraryRules
from tunefarm_schemas.tuning.record import RecordKey, RecordMatch, RecordStatus, TuningRecord
from tunefarm_schemas.views.database import ImportReport
from tunefarm_schemas.views.record import CodeForm, RecordCode, RecordInField, RecordTrials
from tunefarm_services.exchange.claims import claim, kept, key_without_place
from tunefarm_services.exchange.database_export import FIX, holds, left_out
from tunefarm_services.exchange.database_import import take_in
from tunefarm_services.exchange.database_reading import ReadingLimits, read_database
from tunefarm_services.record_views.code_messages import CODE_ENTRY, CODE_FIXES, CodeQuestion, CodeText
from tunefarm_services.record_views.record_code import RecordCodes
from tunefarm_services.record_views.record_field import RecordFields
from tunefarm_services.record_views.record_trials import fastest_trials
from tunefarm_services.store import LOCAL_TENANT, NotFound
from tunefarm_services.store.catalog.target_repository import TargetRepository
from tunefarm_services.store.catalog.workload_repository import WorkloadRepository
from tunefarm_services.store.records.record_repository import RecordRepository

if TYPE_CHECKING:
    from tunefarm.local.machine import LocalMachine

PAGE: Final = 1000
MAX_RECORDS: Final = 100_000
TIMEOUT_S: Final = 300.0


class LocalRecords:
    """The records of this machine's store."""

    def __init__(self, machine: "LocalMachine") -> None:
        self._machine = machine

    def listed(self, status: RecordStatus | None, limit: int) -> Sequence[TuningRecord]:
        """Records, the newest first."""
        found: list[TuningRecord] = []
        after: str | None = None
        while page := self._machine.store.records.page(LOCAL_TENANT, status=status, limit=PAGE, after=after):
            found += page
            after = page[-1].record_id
        return sorted(found, key=lambda record: record.created_at, reverse=True)[:limit]

    def best(self, query: ModuleQuery) -> Sequence[RecordMatch]:
        """The best records for a module. Exact ones are for this machine, unless the query names another device class.

        Raises:
            BadInput: the module or the target is invalid.
        """
        machine = self._machine
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

    def named(self, record_id: str) -> TuningRecord:
        """The record whose id is, or begins with, ``record_id``."""
        store = self._machine.known_store
        return named_record(None if store is None else store.records, record_id)

    def workload_name(self, record: TuningRecord) -> str:
        """The name of the record's workload."""
        return self._machine.workload_name(record)

    def code(self, record: TuningRecord, form: CodeForm) -> RecordCode:
        """A text of the record's code, written by a confined child.

        Raises:
            BadInput: the trace no longer applies, or there is no library to disassemble.
        """
        machine = self._machine

        def ask(question: CodeQuestion) -> CodeText:
            return call(machine.fork_server, CODE_ENTRY, question, CodeText, field="record", fixes=CODE_FIXES)

        try:
            return RecordCodes(machine.store, ask).get(LOCAL_TENANT, record.record_id, form)
        except NotFound as missing:
            fix = "Tune its workload here: tunefarm tune MODULE"
            raise BadInput("record", f"{missing}".rstrip(".") + ".", fix) from missing

    def trials(self, record: TuningRecord) -> RecordTrials:
        """The fastest trials of the record's search."""
        return fastest_trials(self._machine.store.points, self._machine.store.trials, record)

    def field(self, record: TuningRecord) -> RecordInField:
        """What devices report of releases with the record."""
        return RecordFields(self._machine.store).get(LOCAL_TENANT, record.record_id)

    def export(self, folder: str, record_ids: Sequence[str]) -> Written:
        """Write the named records, or all verified ones of the stable ABI, as TVM's JSON database.

        Raises:
            BadInput: a record is unknown or has the packed ABI, or the folder cannot be written.
        """
        output_folder(folder, field="folder")
        records: Sequence[TuningRecord] = [_exportable(self.named(each)) for each in record_ids]
        others: list[TuningRecord] = []
        if not records:
            verified = self.listed(RecordStatus.VERIFIED, MAX_RECORDS)
            records = [record for record in verified if holds(record)]
            others = [record for record in verified if not holds(record)]
            others += self.listed(RecordStatus.CLAIMED, MAX_RECORDS)
        fork_server, store = self._machine.fork_server, self._machine.store
        entries = Entries(accepted=tuple(_entry(store.workloads, store.targets, record) for record in records))
        text = call(fork_server, WRITE_ENTRY, entries, WrittenDatabase, field="record", timeout_s=TIMEOUT_S)
        write_database(folder, text.workloads, text.records)
        return Written(len(records), tuple((each.records, each.reason) for each in left_out(others)))

    def take_in(self, folder: str) -> ImportReport:
        """Import every usable line of TVM's JSON database as a claimed record.

        Raises:
            BadInput: the folder contains no database.
        """
        machine = self._machine
        workloads, records = database_lines(folder)
        fork_server, callees = machine.fork_server, machine.settings.callees.get(LOCAL_TENANT, ())
        read = read_database(lambda: fork_server, workloads, records, callees=callees, limits=ReadingLimits(LIMITS))
        return take_in(machine.store, LOCAL_TENANT, read, machine.compare)

    def publish(self, query: ModuleQuery, trace: str, latency_s: float) -> TuningRecord:
        """Publish a schedule of a module as claimed. ``trace`` is as typed.

        Raises:
            BadInput: the module, the target or the schedule is invalid, or the schedule does not apply.
        """
        machine = self._machine
        answer = machine.understand(query.request(trace))
        [workload] = machine.recognised(answer.workloads, with_schedules=True)
        [applied] = answer.seed_traces
        key = key_without_place(workload.workload_id, answer.target.target_id)
        claimed = claim(LOCAL_TENANT, key, applied, latency_s, "published")
        record, _ = kept(machine.store, claimed, workload, answer.target)
        return record

    def retract(self, record: TuningRecord, reason: str) -> None:
        """Retract a record."""
        self._machine.store.records.retract(LOCAL_TENANT, record.record_id, reason)

    def write_artifact(self, record: TuningRecord, folder: Path, rules: LibraryRules) -> tuple[str, Path]:
        """Write the record's library, manifest and function; returns the artifact's id and the library's path.

        Raises:
            BadInput: the record has no artifact, because it was never verified here.
        """
        store = self._machine.store
        manifests = store.artifacts.newest_first(LOCAL_TENANT, record_id=record.record_id)
        if not manifests:
            fix = "Tune its workload here, with the record as a claim in the store: tunefarm tune MODULE"
            raise BadInput("record", f"{record.record_id} is {record.status.value} and was never built here.", fix)
        manifest, library = store.artifacts.get(LOCAL_TENANT, manifests[0].artifact_id)
        module_json = store.workloads.get(LOCAL_TENANT, manifest.workload_id).module_json
        examples = store.input_examples.get(manifest.input_specs)
        return manifest.artifact_id, write_artifact(folder, manifest, library, module_json, examples, rules)


def named_record(records: RecordRepository | None, record_id: str) -> TuningRecord:
    """The record whose id is, or begins with, ``record_id``.

    Raises:
        BadInput: no record matches, or several do.
    """
    found: list[TuningRecord] = []
    if records is not None and record_id:
        try:
            return records.get(LOCAL_TENANT, record_id)
        except NotFound:
            found = records.page(LOCAL_TENANT, limit=ASKED_FOR, id_prefix=record_id)
    require_one("record", record_id, [record.record_id for record in found])
    return found[0]


def schedule_view(machine: "LocalMachine", record: TuningRecord) -> RecordView:
    """Apply a record's trace in a confined child, and return the scheduled function as text.

    Raises:
        BadInput: the trace no longer applies.
    """
    workload = machine.store.workloads.get(LOCAL_TENANT, record.key.workload_id)
    request = ViewRequest(module_json=workload.module_json, trace=record.trace)
    return call(machine.fork_server, VIEW_ENTRY, request, RecordView, field="record")


def _exportable(record: TuningRecord) -> TuningRecord:
    if not holds(record):
        problem = f"{record.record_id} has the packed ABI, which TVM's database cannot represent."
        raise BadInput("record", problem, FIX)
    return record


def _entry(workloads: WorkloadRepository, targets: TargetRepository, record: TuningRecord) -> Entry:
    return Entry(
        workload=workloads.get(LOCAL_TENANT, record.key.workload_id),
        target=targets.get(record.key.target_id),
        trace=record.trace,
        latency_s=record.latency_s,
    )
