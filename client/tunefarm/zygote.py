"""Starts the process that all confined children are forked from. Light: it is the first thing a command does."""

from typing import Final

from tunefarm_sandbox.fork_server import ForkServer

PRELOAD: Final = ("tvm", "tunefarm.preloading:load")


def start_zygote() -> ForkServer:
    """Start it; returns at once, while it loads TVM in the background."""
    return ForkServer.start(PRELOAD)
