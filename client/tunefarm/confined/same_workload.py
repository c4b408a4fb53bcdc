"""The child that compares workloads for structural equality."""

from typing import Final

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.fork_server.question import answer
from tunefarm_services.same_workload import SameQuestion, compared

ENTRY: Final = "tunefarm.confined.same_workload:main"


def main(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry of the child: reads a ``SameQuestion``, answers with a ``SameAnswer``."""
    del descriptors
    question = SameQuestion.model_validate_json(payload)
    answer(channel, lambda: compared(question))
