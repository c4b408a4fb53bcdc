"""Starts the process that all confined children are forked from."""

from importlib import import_module

from tunefarm.startup.preloads import PRELOAD, PRELOAD_TO_SEARCH, PRELOAD_TO_SEND
from tunefarm_sandbox.fork_server.fork_server import ForkServer


def start_zygote() -> ForkServer:
    """Start it; returns at once, while it loads TVM in the background."""
    return _started(PRELOAD)


def start_intake_zygote() -> ForkServer:
    """Start one that only reads what is then sent to a service; needs neither the tuner nor the workers installed."""
    return _started(PRELOAD_TO_SEND)


def start_search_zygote() -> ForkServer:
    """Start one that only searches, for tuners whose candidates are measured by workers."""
    return _started(PRELOAD_TO_SEARCH)


def _started(preload: tuple[str, ...]) -> ForkServer:
    """Raises ModuleNotFoundError, which the process that loads TVM could only die of."""
    import_module("tunefarm_search")
    return ForkServer.start(preload)
