"""Sizes of dimensions that a model states as arithmetic of others, such as ``past_length + length``."""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Final

_MAX_CHARACTERS: Final = 200
_OPERATORS: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


def derived_size(name: str, sizes: Mapping[str, int]) -> int | None:
    """The size of a dimension, by its name and the sizes of those that have one; None if it does not follow."""
    if name in sizes:
        return sizes[name]
    if len(name) > _MAX_CHARACTERS:
        return None
    try:
        found = _value(ast.parse(name, mode="eval").body, sizes)
    except (ArithmeticError, KeyError, SyntaxError, ValueError):
        return None
    return found if found > 0 else None


def _value(node: ast.expr, sizes: Mapping[str, int]) -> int:
    """Raises KeyError for what is no arithmetic of ``sizes``."""
    match node:
        case ast.BinOp(left=left, op=sign, right=right):
            return _OPERATORS[type(sign)](_value(left, sizes), _value(right, sizes))
        case ast.Name(id=name):
            return sizes[name]
        case ast.Constant(value=int(number)):
            return number
    raise KeyError(ast.dump(node))
