"""What a fork server inherits of its parent's environment."""

import os
from collections.abc import Mapping
from typing import Final

_NAMES: Final = frozenset(
    {"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "CC", "CXX"}
)
_PREFIXES: Final = ("LC_", "PYTHON", "OMP_", "OPENBLAS_", "MKL_", "TVM_")
_DEFAULTS: Final = {"OPENBLAS_NUM_THREADS": "1"}
"""A server has one thread, and numpy's library would start its own on import."""


def server_environment(added: Mapping[str, str]) -> dict[str, str]:
    """Harmless variables of this process, and ``added``.

    Tokens and passwords in the other variables stay out of reach of the code that children run.
    """
    inherited = {name: value for name, value in os.environ.items() if name in _NAMES or name.startswith(_PREFIXES)}
    return {**_DEFAULTS, **inherited, **added}
