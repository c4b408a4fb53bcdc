"""Names of lease owners, and whether an owner on this host is dead."""

import os
from pathlib import Path


def owner_name() -> str:
    """A name for this process, unique over all hosts."""
    return f"{os.uname().nodename}:{os.getpid()}:{os.urandom(4).hex()}"


def is_gone(owner: str) -> bool:
    """Whether ``owner`` is a dead process of this host. False for other hosts, whose leases must expire."""
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
