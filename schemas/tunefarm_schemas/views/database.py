"""Reports of imports and exports."""

from pydantic import BaseModel, Field


class RefusedLine(BaseModel):
    """A rejected line, counted from 1 in ``workloads`` or ``records``, and the reason."""

    file: str
    line: int
    reason: str


class ImportReport(BaseModel):
    """Ids of the new records, the number of existing ones, and the rejected lines.

    ``refusals`` are the first thousand of the ``refused`` lines.
    """

    record_ids: tuple[str, ...]
    already_there: int
    refusals: tuple[RefusedLine, ...]
    refused: int = 0


class LeftOutRecords(BaseModel):
    """How many records an export left out for one reason."""

    records: int
    reason: str


class ExportedDatabase(BaseModel):
    """The text of both files of a TVM database, the number of records in them, and the records left out."""

    workloads: str = Field(repr=False)
    records: str = Field(repr=False)
    exported: int
    left_out: tuple[LeftOutRecords, ...] = ()
