"""The child's side of a confined call: one request in, one answer or refusal out."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen

if TYPE_CHECKING:
    from tunefarm_sandbox.channel import Channel


class Refusal(Frozen):
    """``BadInput`` as a value, so that it can cross from a child to the command."""

    kind: Literal["bad_input"] = "bad_input"
    field: str
    problem: str
    fix: str

    @classmethod
    def of(cls, error: BadInput) -> "Refusal":
        """The value that stands for ``error``."""
        return cls(field=error.field, problem=error.problem, fix=error.fix)

    def as_error(self) -> BadInput:
        """The exception that this value stands for."""
        return BadInput(self.field, self.problem, self.fix)


def answer(channel: "Channel", work: Callable[[], Frozen]) -> None:
    """Send what ``work`` returns, or the ``BadInput`` it raises. Any other exception ends the child and is a bug."""
    try:
        result: Frozen = work()
    except BadInput as error:
        result = Refusal.of(error)
    channel.send(result.model_dump_json().encode())
