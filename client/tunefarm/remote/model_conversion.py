"""Converts a module, or the file of a model, for a service, with the whole model for a job that keeps it."""

from pathlib import Path
from typing import TYPE_CHECKING

from tunefarm.frontend.model_source import ModelFile
from tunefarm.intake.intake_request import IntakeRequest
from tunefarm.intake.module_source import JsonSource
from tunefarm.intake.python_input import PythonInput
from tunefarm.options.model_options import ModelOptions
from tunefarm.remote.conversion import Conversion, Converter

if TYPE_CHECKING:
    from tunefarm.frontend.model_import import ImportedModel


def convert_with_model(
    converter: Converter,
    request: IntakeRequest,
    file: ModelFile | None,
    of_model: ModelOptions,
    given: PythonInput | None = None,
    *,
    keeps_model: bool = False,
) -> tuple[Conversion, bytes | None]:
    """Convert a request, or the model in ``file`` in its place; also return the whole model for the job to keep.

    Raises:
        BadInput: the model cannot be read or does not take the options, or as ``Converter.convert`` and ``kept_model``.
    """
    read: ImportedModel | None = None
    if file is not None:
        from tunefarm.frontend.model_import import import_model  # a client without extras has no NumPy

        read = import_model(converter.fork_server, file, of_model.shapes, traced=of_model.is_traced)
        module = JsonSource(name=Path(file.path).stem, text=read.module_json)  # its weights stay here
        request = request.model_copy(update={"module": module})
    conversion = converter.convert(request, given, prepares_here=file is not None, of_model=of_model)
    of_model.require_read(by_frontend=file is not None or conversion.is_of_frontend, is_model=conversion.of_model)
    if not keeps_model:
        return conversion, None
    from tunefarm.remote.whole_model import kept_model

    return conversion, kept_model(converter, conversion, request.module, read, of_model)
