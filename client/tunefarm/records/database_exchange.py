"""Export to and import from TVM's JSON database."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tunefarm.confined.call import LIMITS, call
from tunefarm.confined.tvm_exchange import WRITE_ENTRY, Entries, Entry, WrittenDatabase
from tunefarm.options.job_options import output_folder
from tunefarm.records.record_place import Written
from tunefarm.records.record_queries import listed, named_record
from tunefarm.records.tvm_database_folder import database_lines, write_database
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.record import RecordStatus, TuningRecord
from tunefarm_services.exchange.database_export import FIX, holds, left_out
from tunefarm_services.exchange.database_import import ImportOutcome, take_in
from tunefarm_services.exchange.database_reading import ReadingLimits, read_database
from tunefarm_services.store import LOCAL_TENANT, Store

if TYPE_CHECKING:
    from tunefarm.local.machine import LocalMachine

MAX_RECORDS: Final = 100_000
TIMEOUT_S: Final = 300.0


def export_records(machine: "LocalMachine", folder_text: str, record_ids: Sequence[str]) -> Written:
    """Write the named records, or all verified ones of the stable ABI, as a TVM database.

    Raises:
        BadInput: a record is unknown or has the packed ABI, or the folder cannot be written.
    """
    output_folder(folder_text, field="folder")
    named = [_exportable(named_record(machine.known_store, each)) for each in record_ids]
    store = machine.store
    others: list[TuningRecord] = []
    if named:
        records: Sequence[TuningRecord] = named
    else:
        verified = listed(store.records, RecordStatus.VERIFIED, MAX_RECORDS)
        records = [record for record in verified if holds(record)]
        others = [record for record in verified if not holds(record)]
        others += listed(store.records, RecordStatus.CLAIMED, MAX_RECORDS)
    entries = Entries(accepted=tuple(_entry(store, record) for record in records))
    text = call(machine.zygote, WRITE_ENTRY, entries, WrittenDatabase, field="record", timeout_s=TIMEOUT_S)
    write_database(folder_text, text.workloads, text.records)
    return Written(len(records), tuple((each.records, each.reason) for each in left_out(others)))


def import_database(machine: "LocalMachine", folder_text: str) -> ImportOutcome:
    """Import every usable line of a TVM database as a claimed record.

    Raises:
        BadInput: there is no database in the folder.
    """
    workloads, records = database_lines(folder_text)
    zygote, callees = machine.zygote, machine.settings.callees.get(LOCAL_TENANT, ())
    read = read_database(lambda: zygote, workloads, records, callees=callees, limits=ReadingLimits(LIMITS))
    return take_in(machine.store, LOCAL_TENANT, read, machine.compare)


def _exportable(record: TuningRecord) -> TuningRecord:
    if not holds(record):
        problem = f"{record.record_id} has the packed ABI, which TVM's database cannot represent."
        raise BadInput("record", problem, FIX)
    return record


def _entry(store: Store, record: TuningRecord) -> Entry:
    return Entry(
        workload=store.workloads.get(LOCAL_TENANT, record.key.workload_id),
        target=store.targets.get(record.key.target_id),
        trace=record.trace,
        latency_s=record.latency_s,
    )
