"""The child that prints a function as TVM's script for the oracle, independently of the validation."""

import json
from typing import Final

from pydantic import Field

from tunefarm_sandbox.fork_server.question import answering
from tunefarm_schemas.frozen import Frozen

ENTRY: Final = "fuzz.trace_child:printed"


class AppliedTrace(Frozen):
    """An accepted module, and an accepted trace to apply to it."""

    module_json: str = Field(repr=False)
    trace: str = ""


class Script(Frozen):
    """A function as TVM prints it."""

    text: str


def _script(question: AppliedTrace) -> Script:
    import tvm
    from tvm.s_tir import Schedule

    from tunefarm_search.tvm.errors import TVM_ERRORS
    from tunefarm_search.validation.trace_application import apply_steps

    module = tvm.ir.load_json(question.module_json)
    if question.trace:
        schedule = Schedule(module, seed=1)
        apply_steps(json.loads(question.trace), schedule)
        module = schedule.mod
    try:
        return Script(text=str(module.script(show_meta=True)))
    except TVM_ERRORS:
        # A module may load and be unusable, such as one whose iterators have kinds that no block has: TVM can
        # neither print nor schedule it.
        return Script(text="")


printed = answering(AppliedTrace, _script)
