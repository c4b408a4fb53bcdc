"""Imports into the fork server the modules that its children need: an import takes a second, a fork milliseconds."""

import importlib
from typing import Final

INTAKE: Final = "tunefarm.intake.child"
SEARCH: Final = "tunefarm_services.tuner.search.search_child"
MODELS: Final = ("tunefarm.model.build_child", "tunefarm.model.prepare_child", "tunefarm.model.compare_child")


def load() -> None:
    """Import the modules of every kind of child. Runs no kernel: a process that has run one cannot fork."""
    from tunefarm_workers.child.preload import preload

    preload()
    for name in (INTAKE, *MODELS, SEARCH):
        importlib.import_module(name)


def load_intake() -> None:
    """Import only the intake, for clients of a service."""
    importlib.import_module(INTAKE)


def load_search() -> None:
    """Import only the search, for tuners whose candidates are measured by workers."""
    importlib.import_module(SEARCH)
