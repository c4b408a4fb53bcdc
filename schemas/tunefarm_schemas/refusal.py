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
        """The value that stands for ``error``."""
        return cls(field=error.field, problem=error.problem, fix=error.fix)

    def as_error(self) -> BadInput:
        """The exception that this value stands for."""
        return BadInput(self.field, self.problem, self.fix)
