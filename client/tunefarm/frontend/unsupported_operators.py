"""The refusal of a model with operators that cannot be converted: all of them at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.visible_text import visible_line

MAX_NAMED = 20
MASKS: Final = "Replace results whose size depends on data by masks of a fixed size."
BOXES: Final = "Return boxes and scores, and select them behind the model."
"""Advice that frontends share."""


@dataclass(frozen=True)
class UnsupportedOperator:
    """One node that cannot be converted.

    Attributes:
        operator: the framework's name of it, such as ``aten.fft_rfft.default``.
        node: the name of the node in the model's graph.
        shapes: of its inputs, as text.
        advice: a way around, as a sentence; empty if none is known.
    """

    operator: str
    node: str
    shapes: str
    advice: str = ""


def refuse_unsupported(found: Sequence[UnsupportedOperator]) -> None:
    """Refuse a model with such operators.

    Raises:
        BadInput: ``found`` is not empty; the error names each node, or each of the first twenty.
    """
    if not found:
        return
    named = [visible_line(f"{each.operator} at {each.node} ({each.shapes})") for each in found[:MAX_NAMED]]
    more = f", and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    nodes = "1 node has" if len(found) == 1 else f"{len(found)} nodes have"
    problem = f"{nodes} no conversion to Relax: {', '.join(named)}{more}."
    advice = list(dict.fromkeys(each.advice for each in found if each.advice))
    raise BadInput("model", problem, " ".join(advice) or "Replace them by other operators before the export.")
