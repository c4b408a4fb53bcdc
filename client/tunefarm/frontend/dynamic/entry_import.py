"""Imports a model for several sizes by way of confined children. Does not import TVM."""

from collections.abc import Mapping
from typing import Final

from tunefarm.confined.call import call
from tunefarm.frontend.dynamic.input_dimensions import ENTRY, DimensionsAnswer, DimensionsQuestion, InputDimensions
from tunefarm.frontend.model_import import FIXES, ModelSettings, child_limits, readable_path
from tunefarm.frontend.model_source import FIELD, ModelFile
from tunefarm.intake.module_source import PythonSource
from tunefarm_sandbox.fork_server.fork_server import ForkServer

MAIN: Final = "main"


def dimensions_of(zygote: ForkServer, source: PythonSource | ModelFile) -> tuple[InputDimensions, ...]:
    """The inputs of a model and their dynamic dimensions. Raises BadInput if it cannot be read."""
    settings = ModelSettings()
    answer = call(
        zygote,
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


Entries = Mapping[str, Mapping[str, tuple[int, ...]]]
"""The shapes of the inputs of each entry."""
