"""Example inputs of torch modules, as users give them. Does not import torch."""

import inspect
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class ExampleInputs(NamedTuple):
    """Arguments of ``forward``, by position and by name."""

    arguments: tuple[Any, ...]
    keywords: dict[str, Any]

    def named(self, module: Any) -> dict[str, Any]:
        """The arguments by their names in ``forward``."""
        return {**dict(zip(_positional_names(module), self.arguments, strict=False)), **self.keywords}

    def replaced(self, named: Mapping[str, Any]) -> "ExampleInputs":
        """The same with other values; ``named`` is as ``named`` gives them."""
        values = list(named.values())
        count = len(self.arguments)
        return ExampleInputs(tuple(values[:count]), dict(zip(self.keywords, values[count:], strict=True)))


def _positional_names(module: Any) -> Iterator[str]:
    """The names of positional arguments; those of ``*inputs`` have numbers, as in torch."""
    for parameter in inspect.signature(module.forward).parameters.values():
        if parameter.kind == inspect.Parameter.VAR_POSITIONAL:
            yield from (f"{parameter.name}_{number}" for number in itertools.count())
        yield parameter.name


def example_inputs_of(given: Any) -> ExampleInputs:
    """A tuple or list of arguments, a dictionary of keyword arguments, or one argument."""
    if isinstance(given, ExampleInputs):
        return given
    if isinstance(given, Mapping):
        return ExampleInputs((), dict(given))
    return ExampleInputs(tuple(given) if isinstance(given, tuple | list) else (given,), {})
