"""Reads ONNX models."""

from collections.abc import Mapping
from pathlib import Path

from tunefarm.frontend.relax_model import RelaxModel


def import_onnx(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> RelaxModel:
    """Convert an ONNX model to Relax.

    Args:
        path: of the ``.onnx`` file; external data is read from its folder only.
        shapes: the sizes of inputs that the model leaves open, by the name of the input.

    Raises:
        BadInput: the file is damaged or not an ONNX model, an operator has no conversion, or a size is wrong.
    """
    from tunefarm.frontend.onnx.reading import read_onnx

    return read_onnx(path, shapes)
