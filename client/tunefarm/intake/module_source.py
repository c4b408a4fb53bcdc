"""Parses the MODULE argument, without executing anything."""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from tunefarm.builtin.catalogue import BuiltinReference, parse_builtin
from tunefarm.terminal.user_files import LARGEST_FILE_BYTES, read_plain_file
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen

FORMS: Final = "Give a TVMScript or te file (.py), TVM JSON (.json), FILE.py:FUNCTION, te:NAME or builtin:NAME."
EXTERN_FUNCTION: Final = "relax.expr.ExternFunc"
"""A node of TVM JSON: a function outside of the module, as in ``call_dps_packed("env.relu", ...)``."""
MODEL_SUFFIXES: Final = {".onnx", ".pt", ".pth", ".pt2", ".tflite", ".pb", ".h5", ".safetensors"}


class PythonSource(Frozen):
    """A Python file and the function or object in it (empty: all modules and functions that it defines)."""

    kind: Literal["python"] = "python"
    path: str
    symbol: str = ""


class JsonSource(Frozen):
    """The output of ``tvm.ir.save_json``."""

    kind: Literal["json"] = "json"
    name: str
    text: str = Field(repr=False)


class TeWorkloadSource(Frozen):
    """A workload of TVM's own tests."""

    kind: Literal["te"] = "te"
    name: str


class BuiltinSource(Frozen):
    """A built-in workload."""

    kind: Literal["builtin"] = "builtin"
    reference: BuiltinReference


ModuleSource = Annotated[PythonSource | JsonSource | TeWorkloadSource | BuiltinSource, Field(discriminator="kind")]


def parse_module_source(text: str) -> ModuleSource:
    """Parse the MODULE argument.

    Raises:
        BadInput: it has an unknown form, or its file cannot be read.
    """
    scheme, _, rest = text.partition(":")
    if scheme == "builtin":
        return BuiltinSource(reference=parse_builtin(rest))
    if scheme == "te":
        return TeWorkloadSource(name=rest)
    path_text, symbol = split_symbol(text)
    path = readable_file("module", path_text, fix=FORMS)
    if path.suffix == ".py":
        return PythonSource(path=str(path), symbol=symbol)
    if symbol:
        raise BadInput("module", f"only a .py file has functions to select, not {path_text}.", FORMS)
    if path.suffix in MODEL_SUFFIXES:
        raise BadInput(
            "module",
            f"{path.name} is a model, which is not read here.",
            "Give one of its functions as TVM JSON, or the model to tunefarm tune, submit or compile.",
        )
    return JsonSource(name=path.name, text=_text_of(path))


def split_symbol(text: str) -> tuple[str, str]:
    """Split ``FILE.py:FUNCTION`` into its two parts; the second is empty without a function."""
    path, colon, symbol = text.rpartition(":")
    return (path, symbol) if colon and path.endswith(".py") else (text, "")


def readable_file(field: str, text: str, *, fix: str, largest_bytes: int | None = LARGEST_FILE_BYTES) -> Path:
    """The absolute path of an existing file of at most ``largest_bytes``; of any size if None.

    Raises:
        BadInput: the file does not exist, cannot be read, or is too large.
    """
    try:
        path = Path(text).expanduser().resolve()
        size_bytes = path.stat().st_size if path.is_file() else None
    except (OSError, ValueError, RuntimeError) as error:
        raise BadInput(field, f"{text!r} cannot be read ({error}).", fix) from error
    if size_bytes is None:
        problem = "is not a file." if path.exists() else "does not exist."
        raise BadInput(field, f"{text!r} {problem}", fix)
    if largest_bytes is not None and size_bytes > largest_bytes:
        raise BadInput(field, f"{text!r} is larger than {largest_bytes >> 20} MiB.", "Give one function at a time.")
    return path


def _text_of(path: Path) -> str:
    try:
        return read_plain_file(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput("module", f"{path.name} is not text ({error}).", FORMS) from error
