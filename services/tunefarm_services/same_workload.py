"""Comparison of workloads in a confined child: its request and its response."""

from typing import Final

from tunefarm_sandbox.fork_server.question import answering
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.workload import Workload

SAME_ENTRY: Final = "tunefarm_services.same_workload:answer_same"


class AlikeWorkloads(Frozen):
    """A workload, and a stored one with the same structural hash and the same arguments."""

    workload: Workload
    stored: Workload


class SameQuestion(Frozen):
    """Pairs to compare. ``with_schedules``: schedules of the given workload must also apply to the stored one.

    ``of_model``: names of parameters make no difference.
    """

    pairs: tuple[AlikeWorkloads, ...]
    with_schedules: bool
    of_model: bool = False


class SameAnswer(Frozen):
    """For each pair, whether the stored workload may replace the other."""

    same: tuple[bool, ...]


def compared(question: SameQuestion) -> SameAnswer:
    """Compare each pair. Loads TVM, so call it only in a child."""
    from tunefarm_search.tvm.workload import may_stand_for

    same = [
        may_stand_for(pair.stored, pair.workload, with_schedules=question.with_schedules, of_model=question.of_model)
        for pair in question.pairs
    ]
    return SameAnswer(same=tuple(same))


answer_same = answering(SameQuestion, compared)
