"""Reads StableHLO, which JAX and TensorFlow export."""

from collections.abc import Mapping
from pathlib import Path

from tunefarm.frontend.relax_model import RelaxModel
from tunefarm.frontend.stablehlo.conversion import converted
from tunefarm.frontend.stablehlo.parsing import module_of_export, parsed, writer

JAX_EXPORT_SUFFIX = ".jax"


def import_stablehlo(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> RelaxModel:
    """Convert a file of StableHLO text or bytecode, or what ``jax.export`` serialized if its suffix is ``.jax``.

    Args:
        path: the file.
        shapes: of the inputs with dimensions of unknown size, by the names of the inputs.

    Raises:
        BadInput: the file is damaged, an operator has no conversion, or a size is missing.
    """
    if path.suffix.lower() == JAX_EXPORT_SUFFIX:
        return import_jax_exported(path.read_bytes(), shapes)
    return converted(parsed(path.read_bytes()), shapes, writer())


def import_jax_exported(data: bytes, shapes: Mapping[str, tuple[int, ...]]) -> RelaxModel:
    """Convert what ``jax.export.Exported.serialize`` returns; shapes and errors as of ``import_stablehlo``."""
    return converted(parsed(module_of_export(data)), shapes, writer())
