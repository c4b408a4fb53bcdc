"""Parses StableHLO text, MLIR bytecode and the artifacts of ``jax.export``; nothing in them is executed."""

from typing import Any, Final

import jaxlib
import jaxlib.mlir._mlir_libs._jax_mlir_ext as jax_dialects
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo

from tunefarm_schemas.bad_input import BadInput

BYTECODE_MAGIC: Final = b"ML\xefR"
FIX: Final = (
    "Export it again, as StableHLO text or portable bytecode, with a version of JAX not newer than the one here."
)


def context() -> Any:
    """An MLIR context with the dialects of StableHLO files, and with one thread.

    Operators of other dialects are parsed where they are written in MLIR's generic form, so that they can be named.
    """
    registry = ir.DialectRegistry()
    jax_dialects.register_dialects(registry)
    made = ir.Context()
    made.enable_multithreading(False)
    made.append_dialect_registry(registry)
    made.load_all_available_dialects()
    for dialect in (stablehlo, chlo, sdy):
        dialect.register_dialect(made)
    mhlo.register_mhlo_dialect(made)
    made.allow_unregistered_dialects = True
    return made


def parsed(data: bytes) -> Any:
    """The module in a file of text or bytecode.

    Raises:
        BadInput: the file is neither, is damaged, or its dialect or version is unknown.
    """
    made = context()
    try:
        if data.startswith(BYTECODE_MAGIC):
            return stablehlo.deserialize_portable_artifact(made, data)
        return ir.Module.parse(data.decode(), made)
    except (ValueError, RuntimeError, ir.MLIRError) as error:
        lines = [line.strip() for line in str(error).splitlines() if "error" in line]
        reason = (lines or str(error).strip().splitlines() or ["no reason given"])[0]
        raise BadInput("model", f"MLIR of jaxlib {jaxlib.__version__} does not read it: {reason[:300]}.", FIX) from None


def module_of_export(data: bytes) -> bytes:
    """The bytecode in a serialized ``jax.export.Exported``.

    Raises:
        BadInput: it is damaged, or has arguments in containers that are not registered here.
    """
    from jax import export

    try:
        return bytes(export.deserialize(bytearray(data)).mlir_module_serialized)
    except Exception as error:  # a damaged flatbuffer fails anywhere in its reader
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        fix = "Export it again, or write exported.mlir_module_serialized to a .stablehlo file."
        raise BadInput("model", f"jax.export does not read it: {reason[:300]}.", fix) from error


def dimension_names_of_export(data: bytes) -> list[tuple[str, ...]]:
    """The sizes of the arguments of a serialized ``jax.export.Exported`` that was read before, as text."""
    from jax import export

    exported = export.deserialize(bytearray(data))
    return [tuple(map(str, exported.in_avals[at].shape)) for at in exported.module_kept_var_idx]


def writer() -> str:
    """The name and version of the library that reads the file: the file itself does not say what wrote it."""
    return f"jaxlib {jaxlib.__version__}"
