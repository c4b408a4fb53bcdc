"""Reads StableHLO, which JAX and TensorFlow export."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tunefarm.frontend.relax_model import RelaxModel
from tunefarm.frontend.stablehlo.conversion import converted
from tunefarm.frontend.stablehlo.dynamic_shapes import main_input_shapes
from tunefarm.frontend.stablehlo.parsing import dimension_names_of_export, module_of_export, parsed, writer
from tunefarm.frontend.stablehlo.references import references_of

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
    model = converted(parsed(module_of_export(data)), shapes, writer())
    return replace(model, references=references_of(data, model.module))


def input_shapes(path: Path) -> dict[str, tuple[int | str, ...]]:
    """The shapes of the inputs of ``main`` by name; dynamic sizes have the names that ``jax.export`` gave, or none.

    Raises:
        BadInput: the file is damaged, or has no ``main``.
    """
    data = path.read_bytes()
    if path.suffix.lower() != JAX_EXPORT_SUFFIX:
        return main_input_shapes(parsed(data))
    shapes = main_input_shapes(parsed(module_of_export(data)))
    named = dimension_names_of_export(data)
    return {
        name: tuple(names[axis] if size == "" else size for axis, size in enumerate(shape))
        for (name, shape), names in zip(shapes.items(), named, strict=True)
    }
