"""The name of this host in a farm."""

import os
import platform
from typing import Final

VARIABLE: Final = "TUNEFARM_HOST_NAME"


def host_name() -> str:
    """Return the name from the environment, because containers get new names, or else from the system."""
    return os.environ.get(VARIABLE) or platform.node()
