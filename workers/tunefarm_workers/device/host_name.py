"""What a farm calls this host."""

import os
import platform
from typing import Final

VARIABLE: Final = "TUNEFARM_HOST_NAME"


def host_name() -> str:
    """What the environment says, or else the system: a container has another name each time it is made."""
    return os.environ.get(VARIABLE) or platform.node()
