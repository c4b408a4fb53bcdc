"""Messages to and from the child that writes a text of a record's code."""

from typing import Final

from pydantic import Field

from tunefarm_sandbox.fork_server.question import Fixes
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.views.record import CodeForm

CODE_CHILD: Final = "tunefarm_services.record_views.code_child"
CODE_ENTRY: Final = f"{CODE_CHILD}:main"


def fetching(record: str) -> str:
    """The command that writes the artifact of a record."""
    return f"tunefarm artifact build {record} --output DIR"


CODE_FIXES: Final = Fixes(
    too_large=f"Fetch its artifact: {fetching('RECORD')}",
    ended="Retract the record: tunefarm records retract RECORD",
    late="Choose a form that takes less, such as python.",
)


class RecordSchedule(Frozen):
    """What a text of a schedule is made from."""

    module_json: str = Field(repr=False)
    trace: Trace
    target: Target


class CodeQuestion(Frozen, ser_json_bytes="base64", val_json_bytes="base64"):
    """A form of the code of ``source``, which is a library for assembly and a schedule for all other forms."""

    form: CodeForm
    source: RecordSchedule | bytes = Field(repr=False)


class CodeText(Frozen):
    """The text, of at most ``MAX_CODE_CHARACTERS``, without characters that control a terminal."""

    text: str = Field(repr=False)
    is_truncated: bool
