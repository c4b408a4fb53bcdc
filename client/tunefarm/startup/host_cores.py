"""How many physical cores this process may use."""

import os


def usable_physical_cores() -> int:
    """Physical cores among the processors this process may run on, within its control group's quota; at least 1.

    Where only the client is installed, nothing is converted or measured that would use the figure: any will do.
    """
    try:
        # Not at the top: the tree of commands needs the schemas only.
        from tunefarm_search.tvm import host_cores
    except ModuleNotFoundError:
        return os.cpu_count() or 1
    return host_cores.usable_physical_cores()
