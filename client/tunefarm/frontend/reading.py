"""Reads a model by the frontend of its format. Called only in a confined child."""

from collections.abc import Mapping
from pathlib import Path

from tunefarm.frontend.framework import framework_of
from tunefarm.frontend.model_source import FIELD, ModelFile
from tunefarm.frontend.relax_model import RelaxModel
from tunefarm.intake.module_source import PythonSource
from tunefarm.intake.user_file import describe
from tunefarm_schemas.bad_input import BadInput

Shapes = Mapping[str, tuple[int, ...]]


def read_model(source: PythonSource | ModelFile, shapes: Shapes, *, traced: bool = False) -> RelaxModel:
    """Convert a model to Relax.

    ``shapes`` gives the sizes of inputs with dynamic dimensions, by name. ``traced``: a module of torch is traced with
    torch.fx instead of being exported.

    Raises:
        BadInput: the model cannot be converted, or the framework that reads it is not installed.
    """
    path = Path(source.path)
    try:
        if isinstance(source, PythonSource):
            from tunefarm.frontend.python_model import read_python_model

            return read_python_model(source, shapes, traced=traced)
        with framework_of(source.format):
            return _read_file(source, path, shapes)
    except BadInput:
        raise
    except Exception as error:  # frameworks raise whatever they like
        fix = "Check that the framework that wrote it can load it, and that tunefarm's version of it is not older."
        raise BadInput(FIELD, f"{path.name} cannot be converted: {describe(error)}.", fix) from error


def _read_file(source: ModelFile, path: Path, shapes: Shapes) -> RelaxModel:
    # Each is imported where it is used: the frameworks are optional, and take seconds to load.
    match source.format:
        case "pt2":
            from tunefarm.frontend.pytorch.torch_model import import_pt2

            return import_pt2(path, shapes)
        case "onnx":
            from tunefarm.frontend.onnx.reading import read_onnx

            return read_onnx(path, shapes)
        case "tflite":
            from tunefarm.frontend.tflite.reading import import_tflite

            return import_tflite(path, shapes)
        case "stablehlo":
            from tunefarm.frontend.stablehlo_model import import_stablehlo

            return import_stablehlo(path, shapes)
        case "json":
            from tunefarm.frontend.relax_script import import_json

            return import_json(path)
