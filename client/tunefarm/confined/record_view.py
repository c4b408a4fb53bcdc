"""The child that applies a record's trace and prints the scheduled function."""

from typing import Final

from pydantic import Field

from tunefarm_sandbox.fork_server.question import answering
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.trace import Trace

ENTRY: Final = "tunefarm.confined.record_view:main"


class ViewRequest(Frozen):
    """A workload's module and a trace for it."""

    module_json: str = Field(repr=False)
    trace: Trace


class RecordView(Frozen):
    """A record as text: the scheduled script, the trace as Python, the unified diff to the original."""

    script: str
    trace_python: str
    difference: str


def view(request: ViewRequest) -> RecordView:
    """Apply the trace and print the function.

    Raises:
        BadInput: the trace does not apply.
    """
    from tunefarm_search.records.schedule_view import schedule_view

    shown = schedule_view(request.module_json, request.trace)
    return RecordView(script=shown.script, trace_python=shown.python, difference=shown.difference)


main = answering(ViewRequest, view)
