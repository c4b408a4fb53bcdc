"""Names of supervisors, and whether one of this host still lives."""

import os
from pathlib import Path


def owner_name() -> str:
    """A name for this process that no other process on any host has at the same time."""
    return f"{os.uname().nodename}:{os.getpid()}:{os.urandom(4).hex()}"


def is_gone(owner: str) -> bool:
    """Whether ``owner`` is surely dead: a process of this host that no longer runs. Of other hosts nothing is sure."""
    node, _, rest = owner.rpartition(":")[0].rpartition(":")
    if node != os.uname().nodename or not rest.isdigit():
        return False
    try:
        state = Path(f"/proc/{rest}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return state == "Z"
