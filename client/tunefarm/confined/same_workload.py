"""The child that tells whether workloads are one function."""

from typing import Final

from tunefarm_sandbox.channel import Channel
from tunefarm_sandbox.question import answer
from tunefarm_services.same_workload import SameAnswer, SameQuestion

ENTRY: Final = "tunefarm.confined.same_workload:main"


def main(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry of the child: a ``SameQuestion`` in, a ``SameAnswer`` out."""
    del descriptors
    question = SameQuestion.model_validate_json(payload)
    answer(channel, lambda: compared(question))


def compared(question: SameQuestion) -> SameAnswer:
    """Compare each pair."""
    from tunefarm_search.workload import may_stand_for

    same = [
        may_stand_for(pair.stored, pair.workload, with_schedules=question.with_schedules) for pair in question.pairs
    ]
    return SameAnswer(same=tuple(same))
