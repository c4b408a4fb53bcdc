"""Reads a whole TVM database at once."""

from dataclasses import dataclass

from tunefarm_search.records.tvm_database import DatabaseReader, DatabaseRecord, LineRefused


@dataclass(frozen=True)
class Parsed:
    accepted: tuple[DatabaseRecord, ...]
    refused: tuple[tuple[str, int, str], ...]


def parse_database(workloads: str, records: str) -> Parsed:
    reader = DatabaseReader()
    accepted: list[DatabaseRecord] = []
    seen: set[tuple[str, str, str]] = set()
    refused: list[tuple[str, int, str]] = []
    for number, line in enumerate(workloads.splitlines()):
        reader.hold(number, line)
        try:
            reader.check_workload(number)
        except LineRefused as reason:
            refused.append(("workloads", number + 1, str(reason)))
    for number, line in enumerate(records.splitlines()):
        try:
            record = reader.record(line)
            key = (record.workload.workload_id, record.target.target_id, record.trace.trace_id)
            if not (record.is_form and key in seen):
                accepted.append(record)
            seen.add(key)
        except LineRefused as reason:
            refused.append(("records", number + 1, str(reason)))
    return Parsed(tuple(accepted), tuple(refused))
