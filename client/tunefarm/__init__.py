"""The command line, the client of a service, and tuning on one machine.

Importing this package loads neither TVM nor SQLAlchemy nor an HTTP library: each name is loaded on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tunefarm import embedded, torch
    from tunefarm.client import AsyncClient, Client
    from tunefarm.compiler import compile  # noqa: A004 - it is reached as tunefarm.compile
    from tunefarm.farm_builder import FarmBuilder
    from tunefarm.farm_runner import FarmRunner
    from tunefarm.http.api_error import ApiError, ServiceUnreachable
    from tunefarm.model.loaded_model import CompiledModel, load_model
    from tunefarm.records.database_intrinsics import register_intrinsics
    from tunefarm.remote_database import RemoteDatabase
    from tunefarm.tuning_result import NothingToCompile
    from tunefarm_schemas.bad_input import BadInput

__all__ = [
    "ApiError",
    "AsyncClient",
    "BadInput",
    "Client",
    "CompiledModel",
    "FarmBuilder",
    "FarmRunner",
    "NothingToCompile",
    "RemoteDatabase",
    "ServiceUnreachable",
    "compile",
    "embedded",
    "load_model",
    "register_intrinsics",
    "torch",
]

_MODULES: Final = {
    "ApiError": "tunefarm.http.api_error",
    "AsyncClient": "tunefarm.client",
    "BadInput": "tunefarm_schemas.bad_input",
    "Client": "tunefarm.client",
    "CompiledModel": "tunefarm.model.loaded_model",
    "FarmBuilder": "tunefarm.farm_builder",
    "FarmRunner": "tunefarm.farm_runner",
    "NothingToCompile": "tunefarm.tuning_result",
    "RemoteDatabase": "tunefarm.remote_database",
    "ServiceUnreachable": "tunefarm.http.api_error",
    "compile": "tunefarm.compiler",
    "load_model": "tunefarm.model.loaded_model",
    "register_intrinsics": "tunefarm.records.database_intrinsics",
}
_SUBMODULES: Final = frozenset({"embedded", "torch"})


def __getattr__(name: str) -> Any:
    """Load a name on first use.

    Raises:
        AttributeError: for a name that is not one of ``__all__``.
    """
    if name in _SUBMODULES:
        return importlib.import_module(f"tunefarm.{name}")
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'tunefarm' has no attribute {name!r}")
