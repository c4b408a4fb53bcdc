"""The child that writes TVM's JSON database."""

from typing import Final

from pydantic import Field

from tunefarm_sandbox.fork_server.question import answering
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.tuning.workload import Workload

WRITE_ENTRY: Final = "tunefarm.confined.tvm_exchange:write"


class WrittenDatabase(Frozen):
    """Both files of a TVM database."""

    workloads: str = Field(repr=False)
    records: str = Field(repr=False)


class Entry(Frozen):
    """One record of a TVM database. The latency is in seconds."""

    workload: Workload
    target: Target
    trace: Trace
    latency_s: float


class Entries(Frozen):
    """Records to write."""

    accepted: tuple[Entry, ...]


def printed(entries: Entries) -> WrittenDatabase:
    """Write both files.

    Raises:
        BadInput: a trace or a target is damaged.
    """
    from tunefarm_search.records.tvm_database import export_database
    from tunefarm_search.tvm.errors import TVM_ERRORS, last_line

    try:
        database = export_database(
            (entry.workload, entry.target, entry.trace, [entry.latency_s]) for entry in entries.accepted
        )
    except TVM_ERRORS as error:
        fix = "Find it by naming records one at a time, and retract it: tunefarm records retract"
        raise BadInput("record", f"one of them cannot be written: {last_line(error)}.", fix) from error
    return WrittenDatabase(workloads=database.workloads, records=database.records)


write = answering(Entries, printed)
