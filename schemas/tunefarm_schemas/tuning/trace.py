"""Schedules as data."""

import json
from functools import cached_property

from tunefarm_schemas.frozen import Frozen, canonical_json, digest


class Trace(Frozen):
    """A TVM schedule trace with its decisions, as canonical JSON text of ``[instructions, decisions]``.

    The text is data: TVM replays it instruction by instruction and never evaluates it as code.
    """

    text: str

    @classmethod
    def from_json(cls, instructions_and_decisions: object) -> "Trace":
        """Create a trace from the plain JSON value that TVM's ``Trace.as_json`` describes."""
        return cls(text=canonical_json(instructions_and_decisions))

    @cached_property
    def trace_id(self) -> str:
        """Digest of the text."""
        return digest(self.text)

    def as_json(self) -> object:
        """The plain JSON value that ``Trace.apply_json_to_schedule`` accepts."""
        return json.loads(self.text)


class Sketch(Frozen):
    """A trace without decisions: the structure of a schedule, completed by sampling."""

    text: str


class Space(Frozen):
    """The source of schedules.

    ``automatic`` is TVM's post-order-apply with its rules for the target; otherwise ``sketches`` holds the traces,
    without decisions, that a user's schedule function produced.
    """

    automatic: bool = True
    sketches: tuple[Sketch, ...] = ()

    @cached_property
    def space_id(self) -> str:
        """Digest that identifies the space; equal for equal sets of sketches."""
        return "automatic" if self.automatic else digest("\n".join(sorted(s.text for s in self.sketches)))
