"""The dimensions of a model's inputs, before it is converted. Called only in a confined child."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tunefarm.frontend.child import without_torch_cache
from tunefarm.frontend.framework import framework_of
from tunefarm.frontend.model_source import FIELD, ModelFile, ModelSource
from tunefarm.intake.module_source import PythonSource
from tunefarm.intake.user_file import describe
from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.fork_server.question import answer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen

ENTRY: Final = "tunefarm.frontend.dynamic.input_dimensions:main"


class InputDimensions(Frozen):
    """An input, with the names of its dynamic dimensions; the name is empty where the model has none.

    ``is_resizable``: the sizes are those of an example, and may be replaced.
    """

    name: str
    shape: tuple[int | str, ...]
    is_resizable: bool = False


class DimensionsQuestion(Frozen):
    """A model whose inputs are asked for."""

    source: ModelSource


class DimensionsAnswer(Frozen):
    """The inputs that have a shape, in order."""

    inputs: tuple[InputDimensions, ...]


def input_dimensions(source: PythonSource | ModelFile) -> DimensionsAnswer:
    """Read the inputs of a model.

    Raises:
        BadInput: it cannot be read, or its format has constant shapes only.
    """
    path = Path(source.path)
    try:
        if isinstance(source, PythonSource):
            return DimensionsAnswer(inputs=_of_python(source))
        with framework_of(source.format):
            return DimensionsAnswer(inputs=_of_file(source, path))
    except BadInput:
        raise
    except Exception as error:  # frameworks raise whatever they like
        fix = "Check that the framework that wrote it can load it."
        raise BadInput(FIELD, f"the inputs of {path.name} cannot be read: {describe(error)}.", fix) from error


def main(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - the shape of an entry
    """Entry of the child: answer one ``DimensionsQuestion``."""
    without_torch_cache()
    answer(channel, lambda: input_dimensions(DimensionsQuestion.model_validate_json(payload).source))


def _of_file(source: ModelFile, path: Path) -> tuple[InputDimensions, ...]:
    match source.format:
        case "pt2":
            from tunefarm.frontend.pytorch.torch_model import load_pt2

            return _of_program(load_pt2(path))
        case "onnx":
            return _of_onnx(path)
        case "stablehlo":
            return _of_stablehlo(path)
    raise BadInput(
        "bucket", f"a {path.suffix} file has constant shapes.", "Convert it for each size that it is to have."
    )


def _of_python(source: PythonSource) -> tuple[InputDimensions, ...]:
    from tunefarm.frontend.python_model import resolved_model

    found = resolved_model(source)
    if not found.is_torch:
        raise BadInput(
            "bucket", "a Relax module has constant shapes here.", "Give a model of torch, ONNX or StableHLO."
        )
    from torch.export import ExportedProgram

    from tunefarm.frontend.pytorch.torch_model import example_shapes

    if isinstance(found.model, ExportedProgram):
        return _of_program(found.model)
    shapes = example_shapes(found.model, found.inputs)
    return tuple(InputDimensions(name=name, shape=shape, is_resizable=True) for name, shape in shapes.items())


def _of_program(program: Any) -> tuple[InputDimensions, ...]:
    from tunefarm.frontend.pytorch.torch_model import input_sizes

    return _of_shapes(input_sizes(program))


def _of_onnx(path: Path) -> tuple[InputDimensions, ...]:
    from tunefarm.frontend.onnx.model_file import read_model_file

    graph = read_model_file(path).graph
    weights = {each.name for each in graph.initializer} | {each.values.name for each in graph.sparse_initializer}
    shapes = {}
    for each in graph.input:
        tensor = each.type.tensor_type
        if each.name not in weights and tensor.HasField("shape"):
            shapes[each.name] = tuple(d.dim_value if d.dim_value > 0 else d.dim_param for d in tensor.shape.dim)
    return _of_shapes(shapes)


def _of_stablehlo(path: Path) -> tuple[InputDimensions, ...]:
    from tunefarm.frontend.stablehlo_model import input_shapes

    return _of_shapes(input_shapes(path))


def _of_shapes(shapes: Mapping[str, tuple[int | str, ...]]) -> tuple[InputDimensions, ...]:
    return tuple(InputDimensions(name=name, shape=shape) for name, shape in shapes.items())
