"""Loads TVM in half the time of ``import tvm``, for processes that load it once and then fork."""

import functools
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

LOAD_TVM: Final = "tunefarm_search.tvm.loading:load"
"""The preloads of a fork server."""


def load() -> None:
    """Import TVM."""
    with _without_torch():
        import tvm_ffi

        with _without_files():
            _raise_an_error(tvm_ffi)
        with _names_listed_once(tvm_ffi):
            import tvm  # noqa: F401 - loaded for the children


@contextmanager
def _without_torch() -> Iterator[None]:
    """Hide torch meanwhile: TVM imports it if it is installed, which takes two seconds and 100 MB."""
    if "torch" in sys.modules:
        yield
        return
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["torch"]


def _raise_an_error(tvm_ffi: Any) -> None:
    """Make TVM collect the source lines of its libraries, which it does once, with its first error.

    For that it reads the debug information of the interpreter, if there is any: 0.4 s, in the middle of the import, in
    which TVM probes for something that does not exist. While no file can be opened it finds none and never tries again.
    Errors then contain the line that raised them, but not its callers.
    """
    with suppress(RuntimeError):
        tvm_ffi.get_global_func("ffi.ModuleLoadFromFile")("")


@contextmanager
def _without_files() -> Iterator[None]:
    """Prevent this process from opening files meanwhile."""
    few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, most))


@contextmanager
def _names_listed_once(tvm_ffi: Any) -> Iterator[None]:
    """TVM lists its thousands of functions again for each of fifty modules that use a few of them; cache the list."""
    registry = tvm_ffi.registry
    listing = registry.list_global_func_names
    registry.list_global_func_names = functools.cache(listing)
    try:
        yield
    finally:
        registry.list_global_func_names = listing
