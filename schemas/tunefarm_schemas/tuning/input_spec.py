"""Contents of a function's arguments while its schedules are verified and timed.

An input spec defines how to verify and is not part of any identity: a schedule changes the order of a computation and
not its meaning, so a schedule verified on some numbers is also correct for other numbers. Explorations, records and
their reuse therefore ignore specs. If the values affect the time, as the row indices of a sparse product do, a job with
``fresh`` searches again on its own inputs and finally compares the records on them. The record's reason and the
artifact's manifest state which inputs were used.
"""

import math
import re
from typing import Literal, Self

from pydantic import ConfigDict, Field, model_validator

from tunefarm_schemas.frozen import Frozen, digest

InputKind = Literal["normal", "uniform", "positive", "integers", "example"]
"""``normal``: zero mean, unit variance. ``positive``: between a half and one. ``uniform``: floats from ``low`` to
``high``, which is excluded. ``integers``: integers from the same range. ``example``: the array with
``example_digest``."""

MAX_EXAMPLE_BYTES = 64 << 20
"""Total size of all examples of one job."""


class InputSpec(Frozen):
    """The contents of one argument, by its name. ``low`` and ``high`` are for ``uniform`` and ``integers`` only.

    ``example_digest`` is the SHA-256 of the array's elements in the argument's type, little endian, in C order. An
    example is the same in every set of inputs; other arguments are drawn again for each.
    """

    argument: str = Field(min_length=1, max_length=200)
    kind: InputKind
    low: float | None = None
    high: float | None = None
    example_digest: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        ranged = self.kind in {"uniform", "integers"}
        if ranged and (self.low is None or self.high is None):
            raise ValueError(f"{self.kind} needs low and high")
        if not ranged and (self.low is not None or self.high is not None):
            raise ValueError(f"{self.kind} takes neither low nor high")
        if (self.kind == "example") != (self.example_digest is not None):
            raise ValueError("exactly an example has a digest")
        if self.low is None or self.high is None:
            return self
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError("low must be less than high, and both finite")
        if self.kind == "integers" and not (self.low.is_integer() and self.high.is_integer()):
            raise ValueError("low and high of integers must be whole numbers")
        return self

    @property
    def text(self) -> str:
        """The spec as a user types it: ``A=uniform:0:1``."""
        if self.low is not None and self.high is not None:
            return f"{self.argument}={self.kind}:{self.low:.17g}:{self.high:.17g}"
        return f"{self.argument}={self.kind}"


class InputExample(Frozen):
    """The elements of one example, identified by their digest."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    content: bytes = Field(repr=False)

    @property
    def example_digest(self) -> str:
        """SHA-256 of the content."""
        return digest(self.content)


def example_name(example_digest: str) -> str:
    """File name of an example next to an artifact. Raises ``ValueError`` for an invalid digest."""
    if re.fullmatch("[0-9a-f]{64}", example_digest) is None:
        raise ValueError("an example is named by its SHA-256 digest")
    return f"example-{example_digest[:16]}.bin"
