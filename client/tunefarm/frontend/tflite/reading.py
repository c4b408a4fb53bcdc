"""The way of a TFLite model from its file to Relax."""

import struct
from collections.abc import Mapping
from pathlib import Path

from tunefarm.frontend.relax_model import RelaxModel
from tunefarm.frontend.tflite.conversion import convert_model
from tunefarm.frontend.tflite.flatbuffer import damaged, read_tflite
from tunefarm.frontend.tflite.references import references_of


def import_tflite(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> RelaxModel:
    """Convert a TFLite model to Relax.

    Args:
        path: of the ``.tflite`` file.
        shapes: of inputs; a TFLite file is written for one shape, so others than its own are refused.

    Raises:
        BadInput: the file is damaged or not a TFLite model, an operator has no conversion, or ``shapes`` do not fit.
    """
    try:
        model = read_tflite(path)
        converted = convert_model(model, shapes)
    except struct.error as error:
        raise damaged(f"a table is out of bounds ({error})") from None
    references = references_of(path, model, converted.module)
    return RelaxModel(converted.module, {"main": converted.weights}, "tflite 3", converted.notes, references)
