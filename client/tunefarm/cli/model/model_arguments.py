"""Arguments of commands that read a model, and what those commands print of its functions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, TypeAlias

import typer

from tunefarm.terminal.console import say
from tunefarm_schemas.tuning.model import ModelFunction
from tunefarm_schemas.views.quantities import counted

ModelArgument: TypeAlias = Annotated[
    str, typer.Argument(help="A .pt2, .onnx, .tflite, StableHLO or TVM JSON file, or FILE.py:NAME.", metavar="MODEL")
]
ShapeOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=N,N,...", help="Sizes of an input with dynamic dimensions. Repeatable."),
]
FreshOption: TypeAlias = Annotated[bool, typer.Option("--fresh", help="Ignore existing records.")]


def say_notes(notes: Sequence[str], problems: Mapping[str, str]) -> None:
    """Print what a user should know, and why functions did not get their schedule."""
    for note in notes:
        say(note)
    for name, problem in problems.items():
        say(f"{name}: its schedule does not apply: {problem}")


def say_kinds(functions: Sequence[ModelFunction]) -> None:
    """Print how many functions were scheduled in which way."""
    kinds = Counter(each.kind for each in functions)
    shares = ", ".join(f"{number} {kind}" for kind, number in kinds.items())
    say(f"{counted(len(functions), 'function')}{': ' if shares else ''}{shares}")
