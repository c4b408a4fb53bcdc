"""Parses the MODEL argument, without executing anything."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from tunefarm.intake.module_source import PythonSource, readable_file, split_symbol
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen

FIELD: Final = "model"
FORMS: Final = (
    "Give FILE.py:NAME, a .pt2, .onnx or .tflite file, StableHLO (.mlir, .stablehlo, .jax) or TVM JSON (.json)."
)

ModelFormat: TypeAlias = Literal["pt2", "onnx", "tflite", "stablehlo", "json"]
FORMAT_OF_SUFFIX: Final[Mapping[str, ModelFormat]] = MappingProxyType(
    {
        ".pt2": "pt2",
        ".onnx": "onnx",
        ".tflite": "tflite",
        ".mlir": "stablehlo",
        ".mlirbc": "stablehlo",
        ".jax": "stablehlo",
        ".stablehlo": "stablehlo",
        ".json": "json",
    }
)

_PICKLE: Final = "is a pickle. Loading it would run code that it contains, so pickles are never loaded."
_NOT_READ: Final = "has a format that is read by way of ONNX."
_EXPORT: Final = (
    'Export the model where you trust it: torch.export.save(torch.export.export(model.eval(), inputs), "model.pt2").'
)
_KERAS: Final = "Convert it: python -m tf2onnx.convert --keras FILE --output model.onnx"
_SAVED_MODEL: Final = "Convert its folder: python -m tf2onnx.convert --saved-model FOLDER --output model.onnx"
_MXNET: Final = "Convert it: mxnet.onnx.export_model(SYMBOL_FILE, PARAMS_FILE, [INPUT_SHAPE], 'float32', 'model.onnx')"
_PADDLE: Final = (
    "Convert it: paddle2onnx --model_dir FOLDER --model_filename FILE.pdmodel --params_filename FILE.pdiparams "
    "--save_file model.onnx"
)
_REFUSED: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        **dict.fromkeys((".pt", ".pth", ".ckpt", ".bin", ".pkl", ".pickle"), (_PICKLE, _EXPORT)),
        ".safetensors": ("contains weights without a model.", f"Load the weights into the model. {_EXPORT}"),
        **dict.fromkeys((".h5", ".hdf5", ".keras"), (_NOT_READ, _KERAS)),
        ".pb": (_NOT_READ, _SAVED_MODEL),
        ".params": (_NOT_READ, _MXNET),
        **dict.fromkeys((".pdmodel", ".pdiparams"), (_NOT_READ, _PADDLE)),
    }
)


class ModelFile(Frozen):
    """A file that contains a whole model, with its absolute path."""

    kind: Literal["file"] = "file"
    path: str
    format: ModelFormat


ModelSource = Annotated[PythonSource | ModelFile, Field(discriminator="kind")]


def parse_model_source(text: str) -> PythonSource | ModelFile:
    """Parse the MODEL argument: a file, or an object of a Python file as ``FILE.py:NAME``.

    Raises:
        BadInput: it has an unknown form, its file cannot be read, or its format is one that is never loaded.
    """
    path_text, symbol = split_symbol(text)
    path = readable_file(FIELD, path_text, fix=FORMS, largest_bytes=None)
    suffix = path.suffix.lower()
    if suffix == ".py":
        return PythonSource(path=str(path), symbol=symbol)
    if suffix in _REFUSED:
        problem, fix = _REFUSED[suffix]
        raise BadInput(FIELD, f"{path.name} {problem}", fix)
    if suffix not in FORMAT_OF_SUFFIX:
        raise BadInput(FIELD, f"{path.name} has no suffix of a model.", FORMS)
    return ModelFile(path=str(path), format=FORMAT_OF_SUFFIX[suffix])
