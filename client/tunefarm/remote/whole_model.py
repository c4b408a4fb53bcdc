"""A model for a service that compiles it: TVM's JSON with the weights as constants, written in a confined child."""

import os
from collections.abc import Mapping
from typing import Final

from pydantic import Field

from tunefarm.confined.call import call
from tunefarm.frontend.model_import import FIXES, ImportedModel, ModelSettings, child_limits, import_model
from tunefarm.frontend.model_source import FIELD
from tunefarm.frontend.weights_file import read_weights, write_weights
from tunefarm.intake.module_source import JsonSource, ModuleSource, PythonSource
from tunefarm.options.model_options import ModelOptions
from tunefarm.remote.conversion import DEFAULT_OPTIONS, Conversion, Converter
from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_sandbox.fork_server.question import answer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_search.tvm.serialization import load_json

_ENTRY: Final = "tunefarm.remote.whole_model:main"


class SplitModel(Frozen):
    """A model whose weights are in a file, under the names that ``weights`` gives for each entry."""

    module_json: str = Field(repr=False)
    weights: Mapping[str, tuple[str, ...]]


class WholeModel(Frozen):
    """The whole model was written to a file, and has this size."""

    size_bytes: int


def kept_model(
    converter: Converter,
    conversion: Conversion,
    source: ModuleSource,
    read: ImportedModel | None = None,
    of_model: ModelOptions = DEFAULT_OPTIONS,
) -> bytes | None:
    """The whole model for a job to keep; None if the service keeps it as it is sent.

    Args:
        converter: in whose children it is read.
        conversion: of ``source``.
        source: the module.
        read: the model of a file that has been read.
        of_model: for the frontend that reads it.

    Raises:
        BadInput: for ``keep_model``: the module is not a model; or as ``import_model`` and ``whole_model``.
    """
    if read is None and conversion.of_model and isinstance(source, PythonSource):
        read = import_model(converter.fork_server, source, of_model.shapes, traced=of_model.is_traced)
    if read is not None:
        return whole_model(converter.fork_server, read)
    if isinstance(source, JsonSource):
        return source.text.encode() if conversion.of_model else None
    raise BadInput("keep_model", "the module is not a model.", "Omit it.")


def whole_model(fork_server: ForkServer, model: ImportedModel) -> bytes:
    """TVM's JSON of a model with its weights as constants.

    Raises:
        BadInput: it exceeds the limits of models in the environment.
    """
    settings = ModelSettings()
    given = os.memfd_create("weights", os.MFD_CLOEXEC)
    made = os.memfd_create("model", os.MFD_CLOEXEC)
    try:
        arrays = {id(each): each for many in model.weights.values() for each in many}  # entries share some
        write_weights(given, {str(key): each for key, each in arrays.items()})
        names = {entry: tuple(str(id(each)) for each in many) for entry, many in model.weights.items()}
        written = call(
            fork_server,
            _ENTRY,
            SplitModel(module_json=model.module_json, weights=names),
            WholeModel,
            field=FIELD,
            timeout_s=settings.timeout_s,
            limits=child_limits(settings),
            fixes=FIXES,
            descriptors=(given, made),
        )
        with open(made, "rb", closefd=False) as file:
            file.seek(0)
            content = file.read(written.size_bytes)
    finally:
        os.close(given)
        os.close(made)
    return content


def main(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry of the child. ``descriptors`` holds the file of the weights, and the one for the model."""
    answer(channel, lambda: _written(SplitModel.model_validate_json(payload), *descriptors))


def _written(split: SplitModel, given: int, made: int) -> WholeModel:
    import tvm

    from tunefarm_search.relax.preparation import with_constants
    from tunefarm_search.tvm.errors import TVM_ERRORS, last_line

    arrays = read_weights(given)
    weights = {entry: [arrays[name] for name in names] for entry, names in split.weights.items()}
    try:
        content = str(tvm.ir.save_json(with_constants(load_json(split.module_json), weights))).encode()
    except TVM_ERRORS as error:
        raise BadInput(FIELD, f"TVM cannot write it: {last_line(error)}.", "Export it again.") from error
    with open(made, "wb", closefd=False) as file:
        file.write(content)
    return WholeModel(size_bytes=len(content))
