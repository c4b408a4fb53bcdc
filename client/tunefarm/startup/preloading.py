"""Loads, into the zygote, everything that its children need: an import takes a second, a fork takes milliseconds."""

import importlib
from typing import Final

MODULES: Final = (
    "tunefarm.intake.child",
    "tunefarm_services.tuner.search.search_child",
)


def load() -> None:
    """Load what each kind of child imports. Runs no kernel: a process that ran one cannot fork."""
    from tunefarm_workers.child.preload import preload

    preload()
    for name in MODULES:
        importlib.import_module(name)


def load_intake() -> None:
    """Load only what understands modules, for clients of a service."""
    importlib.import_module(MODULES[0])


def load_search() -> None:
    """Load only what searches, for tuners whose candidates are measured by workers."""
    for name in MODULES[1:]:
        importlib.import_module(name)
