"""Starts the fork servers for confined children."""

from importlib import import_module

from tunefarm.startup.preloading import PRELOAD, PRELOAD_TO_SEARCH, PRELOAD_TO_SEND
from tunefarm_sandbox.fork_server.fork_server import ForkServer


def start_fork_server() -> ForkServer:
    """Start a fork server for all kinds of children; returns at once, TVM loads in the background."""
    return _started(PRELOAD)


def start_intake_fork_server() -> ForkServer:
    """Start a fork server that only converts modules for a service; requires neither tuner nor workers."""
    return _started(PRELOAD_TO_SEND)


def start_search_fork_server() -> ForkServer:
    """Start a fork server that only searches, for tuners whose candidates are measured by workers."""
    return _started(PRELOAD_TO_SEARCH)


def _started(preload: tuple[str, ...]) -> ForkServer:
    """Raises ModuleNotFoundError here, because the child could only die of it."""
    import_module("tunefarm_search")
    return ForkServer.start(preload)
