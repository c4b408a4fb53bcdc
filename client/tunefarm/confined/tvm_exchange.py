"""The children that read and write TVM's JSON database."""

from typing import Final

from pydantic import Field

from tunefarm_sandbox.channel import Channel
from tunefarm_sandbox.question import answer
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.target import Target
from tunefarm_schemas.trace import Trace
from tunefarm_schemas.workload import Workload

READ_ENTRY: Final = "tunefarm.confined.tvm_exchange:read"
WRITE_ENTRY: Final = "tunefarm.confined.tvm_exchange:write"


class DatabaseText(Frozen):
    """Both files of a TVM database."""

    workloads: str = Field(repr=False)
    records: str = Field(repr=False)


class Entry(Frozen):
    """One record of a TVM database. The latency is in seconds."""

    workload: Workload
    target: Target
    trace: Trace
    latency_s: float


class Refusal(Frozen):
    """A line that was not taken, counted from 1 in its file (``workloads`` or ``records``), and why."""

    file: str
    line: int
    reason: str


class Entries(Frozen):
    """What a database holds: what is usable, and what is not."""

    accepted: tuple[Entry, ...]
    refused: tuple[Refusal, ...] = ()


def read(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry of the reading child: a ``DatabaseText`` in, ``Entries`` out."""
    del descriptors
    text = DatabaseText.model_validate_json(payload)
    answer(channel, lambda: parsed(text))


def write(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry of the writing child: ``Entries`` in, a ``DatabaseText`` out."""
    del descriptors
    entries = Entries.model_validate_json(payload)
    answer(channel, lambda: printed(entries))


def parsed(text: DatabaseText) -> Entries:
    """Read both files, line by line."""
    from tunefarm_search.tvm_database import parse_database

    database = parse_database(text.workloads, text.records)
    return Entries(
        accepted=tuple(
            Entry(workload=line.workload, target=line.target, trace=line.trace, latency_s=line.latency_s)
            for line in database.accepted
        ),
        refused=tuple(Refusal(file=line.file, line=line.line, reason=line.reason) for line in database.refused),
    )


def printed(entries: Entries) -> DatabaseText:
    """Write both files."""
    from tunefarm_search.tvm_database import export_database

    database = export_database(
        (entry.workload, entry.target, entry.trace, [entry.latency_s]) for entry in entries.accepted
    )
    return DatabaseText(workloads=database.workloads, records=database.records)
