"""Names the extra to install when a command's package is missing."""

from collections.abc import Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import Final

from tunefarm_schemas.bad_input import BadInput

_OF_COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {"release": "release", "submit": "convert", "tuner": "server", "worker": "worker"}
)
_OF_FARMS: Final = frozenset({"opentelemetry", "psycopg", "redis"})
"""Packages that only a farm imports, for its database, its broker and its traces."""


def missing_extra(command: str, error: ModuleNotFoundError) -> BadInput | None:
    """What to install for ``command``; None if the package is installed, in which case the error is a bug."""
    package = (error.name or "").partition(".")[0]
    if not package or find_spec(package) is not None:
        return None
    extra = "server" if package in _OF_FARMS else _OF_COMMANDS.get(command, "local")
    return BadInput(command, f"{package} is not installed.", f"Run: pip install 'tunefarm[{extra}]'")
