"""The child that tells whether workloads are one function."""

from typing import Final

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.fork_server.question import answer
from tunefarm_services.same_workload import SameQuestion, compared

ENTRY: Final = "tunefarm.confined.same_workload:main"


def main(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry of the child: a ``SameQuestion`` in, a ``SameAnswer`` out."""
    del descriptors
    question = SameQuestion.model_validate_json(payload)
    answer(channel, lambda: compared(question))
