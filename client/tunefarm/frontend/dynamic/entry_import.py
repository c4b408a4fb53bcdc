"""Imports a model for several sizes by way of confined children. Does not import TVM."""

from collections.abc import Mapping
from typing import Final

from tunefarm.confined.call import call
from tunefarm.frontend.dynamic.entries import ENTRY as ENTRIES
from tunefarm.frontend.dynamic.entries import EntriesQuestion
from tunefarm.frontend.dynamic.input_dimensions import ENTRY, DimensionsAnswer, DimensionsQuestion, InputDimensions
from tunefarm.frontend.model_import import (
    FIXES,
    ImportedModel,
    ModelSettings,
    child_limits,
    imported_by,
    readable_path,
)
from tunefarm.frontend.model_source import FIELD, ModelFile
from tunefarm.intake.module_source import PythonSource
from tunefarm_sandbox.fork_server.fork_server import ForkServer

MAIN: Final = "main"
Entries = Mapping[str, Mapping[str, tuple[int, ...]]]
"""The shapes of the inputs of each entry."""


def dimensions_of(fork_server: ForkServer, source: PythonSource | ModelFile) -> tuple[InputDimensions, ...]:
    """The inputs of a model and their dynamic dimensions. Raises BadInput if it cannot be read."""
    settings = ModelSettings()
    answer = call(
        fork_server,
        ENTRY,
        DimensionsQuestion(source=source),
        DimensionsAnswer,
        field=FIELD,
        readable=[readable_path(source)],
        timeout_s=settings.timeout_s,
        limits=child_limits(settings),
        fixes=FIXES,
    )
    return answer.inputs


def entry_name(sizes: tuple[int, ...]) -> str:
    """The name of the entry for these sizes, such as ``main@8x128``."""
    return f"{MAIN}@{'x'.join(map(str, sizes))}"


def import_entries(
    fork_server: ForkServer, source: PythonSource | ModelFile, entries: Entries, *, traced: bool = False
) -> ImportedModel:
    """Convert a model to one Relax module with an entry for each of ``entries``. Raises BadInput."""
    return imported_by(fork_server, ENTRIES, EntriesQuestion(source=source, entries=entries, traced=traced), source)
