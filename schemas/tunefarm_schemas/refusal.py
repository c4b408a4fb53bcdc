"""``BadInput`` between processes."""

from typing import Literal

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen


class Refusal(Frozen):
    """``BadInput`` as a value, so that it can cross from a child."""

    kind: Literal["bad_input"] = "bad_input"
    field: str
    problem: str
    fix: str

    @classmethod
    def of(cls, error: BadInput) -> "Refusal":
        """The value that stands for ``error``. What is no text, such as half of a surrogate pair, becomes ``?``."""
        return cls(field=_text(error.field), problem=_text(error.problem), fix=_text(error.fix))

    def as_error(self) -> BadInput:
        """The exception that this value stands for."""
        return BadInput(self.field, self.problem, self.fix)


def _text(told: str) -> str:
    return told.encode("utf-8", "replace").decode()
