"""Records to and from TVM's JSON database."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tunefarm.confined.call import LIMITS, call
from tunefarm.confined.tvm_exchange import WRITE_ENTRY, DatabaseText, Entries, Entry
from tunefarm.job_options import output_folder
from tunefarm.record_queries import listed, named_record
from tunefarm.tvm_database_folder import database_lines, write_database
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.record import RecordStatus, TuningRecord
from tunefarm_services.database_import import ImportOutcome, take_in
from tunefarm_services.database_reading import ReadingLimits, read_database
from tunefarm_services.store import LOCAL_TENANT, Store

if TYPE_CHECKING:
    from tunefarm.machine import Machine

MOST_RECORDS: Final = 100_000
TIMEOUT_S: Final = 300.0


def export_records(machine: "Machine", folder_text: str, record_ids: Sequence[str]) -> int:
    """Write the named records, or all verified ones, as a TVM database; how many were written.

    Raises:
        BadInput: a record is not known, has an ABI of ours only, or the folder cannot be written.
    """
    output_folder(folder_text, field="folder")
    named = [_exportable(named_record(machine.known_store, each)) for each in record_ids]
    store = machine.store
    if named:
        records: Sequence[TuningRecord] = named
    else:
        verified = listed(store, RecordStatus.VERIFIED, MOST_RECORDS)
        records = [record for record in verified if record.key.abi == "stable"]
    entries = Entries(accepted=tuple(_entry(store, record) for record in records))
    text = call(machine.zygote, WRITE_ENTRY, entries, DatabaseText, field="record", timeout_s=TIMEOUT_S)
    write_database(folder_text, text.workloads, text.records)
    return len(records)


def import_database(machine: "Machine", folder_text: str) -> ImportOutcome:
    """Take in every usable line of a TVM database as a claim.

    Raises:
        BadInput: there is no database in the folder.
    """
    workloads, records = database_lines(folder_text)
    zygote, callees = machine.zygote, machine.settings.callees.get(LOCAL_TENANT, ())
    read = read_database(lambda: zygote, workloads, records, callees=callees, limits=ReadingLimits(LIMITS))
    return take_in(machine.store, LOCAL_TENANT, read, machine.compare)


def _exportable(record: TuningRecord) -> TuningRecord:
    if record.key.abi != "stable":
        problem = f"{record.record_id} has the packed ABI, which TVM's database cannot describe."
        raise BadInput("record", problem, "Export records of the stable ABI.")
    return record


def _entry(store: Store, record: TuningRecord) -> Entry:
    return Entry(
        workload=store.workload(LOCAL_TENANT, record.key.workload_id),
        target=store.target(record.key.target_id),
        trace=record.trace,
        latency_s=record.latency_s,
    )
