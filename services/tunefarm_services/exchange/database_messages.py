"""Messages to and from the child that reads a TVM database."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_schemas.views.database import RefusedLine

FileName = Literal["workloads", "records"]


class NumberedLine(Frozen):
    """A line of a file, counted from 1."""

    number: int
    text: str = Field(repr=False)


class HoldWorkloads(Frozen):
    """Lines of workloads to keep until a record refers to them."""

    kind: Literal["hold"] = "hold"
    lines: tuple[NumberedLine, ...]


class ReadLines(Frozen):
    """Lines to parse. Of ``workloads`` only invalid ones are reported."""

    kind: Literal["read"] = "read"
    file: FileName
    lines: tuple[NumberedLine, ...]


ToReader = Annotated[HoldWorkloads | ReadLines, Field(discriminator="kind")]
to_reader: TypeAdapter[ToReader] = TypeAdapter(ToReader)


class ReaderOrder(Frozen):
    """``callees`` are functions outside of a module that it may call."""

    callees: tuple[str, ...] = ()


class ReadRecord(Frozen):
    """A record whose trace applies. ``is_form``: its line is of a form of its workload that TVM looks up."""

    line: int
    workload_id: str
    target_id: str
    trace: Trace
    latency_s: float
    is_form: bool = False


class UnderstoodLines(Frozen):
    """The results of some lines. Workloads and targets come with the first record that refers to them.

    ``repeated`` counts records that this child already reported.
    """

    records: tuple[ReadRecord, ...] = ()
    workloads: tuple[Workload, ...] = ()
    targets: tuple[Target, ...] = ()
    refused: tuple[RefusedLine, ...] = ()
    repeated: int = 0
