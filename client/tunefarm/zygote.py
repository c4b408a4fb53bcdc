"""Starts the process that all confined children are forked from. Light: it is the first thing a command does."""

from typing import Final

from tunefarm_sandbox.fork_server import ForkServer

PRELOAD: Final = ("tvm", "tunefarm.preloading:load")
PRELOAD_TO_SEARCH: Final = ("tvm", "tunefarm.preloading:load_search")
PRELOAD_TO_SEND: Final = ("tvm", "tunefarm.preloading:load_intake")


def start_zygote() -> ForkServer:
    """Start it; returns at once, while it loads TVM in the background."""
    return ForkServer.start(PRELOAD)


def start_intake_zygote() -> ForkServer:
    """Start one that only reads what is then sent to a service; needs neither the tuner nor the workers installed."""
    return ForkServer.start(PRELOAD_TO_SEND)


def start_search_zygote() -> ForkServer:
    """Start one that only searches, for tuners whose candidates are measured by workers."""
    return ForkServer.start(PRELOAD_TO_SEARCH)
