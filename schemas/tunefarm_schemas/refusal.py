"""``BadInput`` between processes."""

from typing import Literal

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen


class Refusal(Frozen):
    """``BadInput`` as a value, to send from a child to its parent."""

    kind: Literal["bad_input"] = "bad_input"
    field: str
    problem: str
    fix: str

    @classmethod
    def of(cls, error: BadInput) -> "Refusal":
        """Convert ``error``. Replaces what is not text, such as half of a surrogate pair, by ``?``."""
        return cls(field=_text(error.field), problem=_text(error.problem), fix=_text(error.fix))

    def as_error(self) -> BadInput:
        """Convert back to the exception."""
        return BadInput(self.field, self.problem, self.fix)


def _text(told: str) -> str:
    return told.encode("utf-8", "replace").decode()
