"""Loads TVM in half the time that ``import tvm`` takes by itself, for processes that do it once and fork then."""

import functools
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

LOAD_TVM: Final = "tunefarm_search.tvm.loading:load"
"""What a fork server is told to load."""


def load() -> None:
    """Import TVM."""
    import tvm_ffi

    with _without_files():
        _raise_an_error(tvm_ffi)
    with _names_listed_once(tvm_ffi):
        import tvm  # noqa: F401 - loaded for the children


def _raise_an_error(tvm_ffi: Any) -> None:
    """Have TVM collect what it knows of its libraries' source lines, as it does once, with its first error.

    It reads the debug information of the interpreter for that, if that has any: 0.4 s, in the middle of the import,
    where TVM looks for something that is not there. While no file can be opened it finds none and never looks again.
    Errors then tell the line that raised them and no longer those that led there.
    """
    with suppress(RuntimeError):
        tvm_ffi.get_global_func("ffi.ModuleLoadFromFile")("")


@contextmanager
def _without_files() -> Iterator[None]:
    """No file can be opened by this process meanwhile."""
    few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, most))


@contextmanager
def _names_listed_once(tvm_ffi: Any) -> Iterator[None]:
    """TVM lists its thousands of functions anew for each of the fifty modules that take a few of them."""
    registry = tvm_ffi.registry
    listing = registry.list_global_func_names
    registry.list_global_func_names = functools.cache(listing)
    try:
        yield
    finally:
        registry.list_global_func_names = listing
