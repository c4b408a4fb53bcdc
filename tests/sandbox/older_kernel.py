"""A preload that lets a fork server use no newer Landlock than the environment names, as on an older kernel.

``TVM_TEST_LANDLOCK=3 pytest tests/sandbox`` attacks children that have what Linux 6.2 offers. What else an older kernel
lacks is not imitated.
"""

import os
from typing import Final

import pytest

from tunefarm_sandbox.confinement import abilities

LIMIT: Final = "TVM_TEST_LANDLOCK"
"""The environment variable; one of those that a fork server inherits."""

_true_abi = abilities._landlock_abi


def needs(version: int) -> pytest.MarkDecorator:
    """Skip on an older Landlock, for attacks that only this version or newer denies; ``Abilities`` reports them."""
    offered = min(_true_abi(), int(os.environ.get(LIMIT, version)))
    return pytest.mark.skipif(offered < version, reason=f"Landlock {offered} leaves it open, and it is told")


def arm() -> None:
    most = int(os.environ[LIMIT])
    abilities._landlock_abi = lambda: min(_true_abi(), most)
