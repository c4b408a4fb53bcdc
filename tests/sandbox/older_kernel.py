"""A preload that limits a fork server to the Landlock version in the environment, as on an older kernel.

``TVM_TEST_LANDLOCK=3 pytest tests/sandbox`` attacks children with the Landlock of Linux 6.2. Other missing features of
older kernels are not simulated.
"""

import os
from typing import Final

import pytest

from tunefarm_sandbox.confinement import abilities

LIMIT: Final = "TVM_TEST_LANDLOCK"
"""The environment variable, which fork servers inherit."""

_true_abi = abilities._landlock_abi


def needs(version: int) -> pytest.MarkDecorator:
    """Skip on an older Landlock, for attacks that only this version or newer denies; ``Abilities`` reports them."""
    offered = min(_true_abi(), int(os.environ.get(LIMIT, version)))
    return pytest.mark.skipif(offered < version, reason=f"Landlock {offered} leaves it open, and this is reported")


def arm() -> None:
    limit = int(os.environ[LIMIT])
    abilities._landlock_abi = lambda: min(_true_abi(), limit)
