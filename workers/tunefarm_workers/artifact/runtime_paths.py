"""Paths of TVM's runtime, for processes that load it without TVM's packages."""

from importlib.util import find_spec
from pathlib import Path
from typing import Final

_LIBRARIES: Final = {"tvm_ffi": "libtvm_ffi.so", "tvm": "libtvm_runtime.so"}


class NoRuntime(Exception):
    """Raised when TVM is not installed."""


def runtime_paths() -> tuple[str, str]:
    """Return the libraries of TVM's FFI and of its runtime, in loading order. Raises ``NoRuntime``."""
    ffi, runtime = (_path(package, name) for package, name in _LIBRARIES.items())
    return ffi, runtime


def _path(package: str, name: str) -> str:
    spec = find_spec(package)
    path = None if spec is None or spec.origin is None else Path(spec.origin).parent / "lib" / name
    if path is None or not path.is_file():
        raise NoRuntime(f"TVM is not installed in this environment: it has no {name}")
    return str(path)
