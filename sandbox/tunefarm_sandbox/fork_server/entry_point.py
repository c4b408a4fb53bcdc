"""Functions referenced by name."""

import importlib
from collections.abc import Callable
from typing import Any


class UnusableEntry(Exception):
    """Raised when a name does not resolve to a function, with the reason."""


def resolve(name: str) -> Callable[..., Any]:
    """Import the module of "package.module:function" and return the function.

    Raises:
        UnusableEntry: it cannot be imported or is not a function.
    """
    module_name, _, function_name = name.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except Exception as error:
        raise UnusableEntry(f"{name}: {type(error).__name__}: {error}") from error
    if not callable(function):
        raise UnusableEntry(f"{name} is not a function")
    return function  # type: ignore[no-any-return]


def preload(name: str) -> None:
    """Import "package.module", or call "package.module:function" without arguments.

    Raises:
        UnusableEntry: it cannot be imported, or the function raised.
    """
    try:
        if ":" in name:
            resolve(name)()
        else:
            importlib.import_module(name)
    except UnusableEntry:
        raise
    except Exception as error:
        raise UnusableEntry(f"{name}: {type(error).__name__}: {error}") from error
