"""Records to and from TVM's JSON database."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tunefarm.confined.call import call
from tunefarm.confined.tvm_exchange import READ_ENTRY, WRITE_ENTRY, DatabaseText, Entries, Entry, Refusal
from tunefarm.job_options import output_folder
from tunefarm.record_queries import listed, named_record
from tunefarm.tvm_database_folder import read_database, write_database
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.record import RecordStatus, TuningRecord
from tunefarm_schemas.workload import Workload
from tunefarm_services.claims import claim, kept, key_without_place
from tunefarm_services.store import LOCAL_TENANT, Store

if TYPE_CHECKING:
    from tunefarm.machine import Machine

MOST_RECORDS: Final = 100_000
TIMEOUT_S: Final = 300.0


class ImportOutcome(Frozen):
    """What an import did: ids of the records that are new, how many were there already, and the lines refused."""

    record_ids: tuple[str, ...]
    already_there: int
    refusals: tuple[Refusal, ...]


def export_records(machine: "Machine", folder_text: str, record_ids: Sequence[str]) -> int:
    """Write the named records, or all verified ones, as a TVM database; how many were written.

    Raises:
        BadInput: a record is not known, has an ABI of ours only, or the folder cannot be written.
    """
    output_folder(folder_text, field="folder")
    store = machine.store
    if record_ids:
        records: Sequence[TuningRecord] = [_exportable(named_record(store, each)) for each in record_ids]
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
        BadInput: there is no database in the folder, or reading it crashes TVM.
    """
    workloads, records = read_database(folder_text)
    text = DatabaseText(workloads=workloads, records=records)
    entries = call(machine.zygote, READ_ENTRY, text, Entries, field="folder", timeout_s=TIMEOUT_S)
    known = machine.recognised([entry.workload for entry in entries.accepted], with_schedules=True)
    taken = [_take_in(machine.store, entry, workload) for entry, workload in zip(entries.accepted, known, strict=True)]
    return ImportOutcome(
        record_ids=tuple(record_id for record_id in taken if record_id is not None),
        already_there=taken.count(None),
        refusals=entries.refused,
    )


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


def _take_in(store: Store, entry: Entry, workload: Workload) -> str | None:
    """Store one claim for its workload, as the store knows it; None when it is there already."""
    key = key_without_place(workload.workload_id, entry.target.target_id)
    offered = claim(LOCAL_TENANT, key, entry.trace, entry.latency_s, "imported")
    record, is_new = kept(store, offered, workload, entry.target)
    return record.record_id if is_new else None
