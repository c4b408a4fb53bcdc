"""What converters read of a node of torch's graph, and what they emit alike."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import torch
from torch import fx
from tvm import relax

Convert: TypeAlias = Callable[[fx.Node, Any], Any]
"""A function of a node and an importer (``env``, ``block_builder``) that gives a Relax expression."""
HALVES: Final = frozenset({torch.float16, torch.bfloat16})
"""Element types that torch sums in float32."""
MAX_PAIRED: Final = 1024
"""Elements of an axis of which all pairs are computed."""


def value_of(node: Any) -> Any:
    """The fake tensor that torch computed for a node."""
    return node.meta.get("val")


@contextmanager
def standing_for(importer: Any, values: Mapping[fx.Node, Any]) -> Iterator[None]:
    """Have a converter read other Relax expressions for nodes."""
    given = {each: importer.env[each] for each in values}
    importer.env.update(values)
    try:
        yield
    finally:
        importer.env.update(given)


def argument(node: fx.Node, number: int, name: str, default: Any = None) -> Any:
    """An argument of a node by its position or its name."""
    return node.args[number] if len(node.args) > number else node.kwargs.get(name, default)


def scaled(value: Any, factor: Any, emit: Callable[[Any], Any]) -> Any:
    """The value times a number."""
    return value if factor == 1 else emit(relax.op.multiply(value, relax.const(factor, str(value.ty.dtype))))


def as_kind(kind: str, value: Any, emit: Callable[[Any], Any]) -> Any:
    """The value in an element type."""
    return value if str(value.ty.dtype) == kind else emit(relax.op.astype(value, kind))
