"""``--libraries``, ``--library`` and ``--race-seconds``: what may run parts of a model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from tunefarm.model.race.library_race import LibraryChoice

DEFAULT_RACE_S: Final = 15.0
"""A copy of the race's constant: help and option parsing must not import the search."""

LibrariesOption = Annotated[
    bool,
    typer.Option(
        "--libraries/--no-libraries", help="Let onnxruntime and OpenVINO run the parts of a model that they run faster."
    ),
]
LibraryOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Only this library, onnxruntime or openvino. Implies --libraries. Repeatable."),
]
RaceSecondsOption = Annotated[float, typer.Option(help="How long to time mixes of kernels and libraries.")]


def library_choice(race_seconds: float, names: Sequence[str] | None, *, is_asked: bool) -> "LibraryChoice | None":
    """The libraries that the options name; None if they name none.

    Raises:
        BadInput: a library is unknown or not installed.
    """
    if not is_asked and not names:
        return None
    from tunefarm.model.race.library_race import choose_libraries

    return choose_libraries(names or (), race_seconds)
