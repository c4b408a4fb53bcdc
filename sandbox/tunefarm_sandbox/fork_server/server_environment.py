"""The environment that a fork server inherits from its parent."""

import os
from collections.abc import Mapping
from typing import Final

_NAMES: Final = frozenset(
    {"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "CC", "CXX"}
)
_PREFIXES: Final = ("LC_", "PYTHON", "OMP_", "OPENBLAS_", "MKL_", "TVM_")
_DEFAULTS: Final = {"OPENBLAS_NUM_THREADS": "1"}
"""A server must have one thread, and numpy's library would start more on import."""


def server_environment(added: Mapping[str, str]) -> dict[str, str]:
    """Return harmless variables of this process, and ``added``.

    Other variables, which may hold tokens and passwords, are not passed to code that children run.
    """
    inherited = {name: value for name, value in os.environ.items() if name in _NAMES or name.startswith(_PREFIXES)}
    return {**_DEFAULTS, **inherited, **added}
