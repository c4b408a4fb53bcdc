"""What each kind of fork server loads before it forks: an import takes a second, a fork milliseconds.

The command imports this module for the names alone, before it parses its options; the fork server calls the functions.
"""

import importlib
from typing import Final

LOAD_TVM: Final = "tunefarm_search.tvm.loading:load"
"""A copy of the search's constant: help and option parsing must not import the search."""
PRELOAD: Final = (LOAD_TVM, "tunefarm.startup.preloading:load")
PRELOAD_TO_SEARCH: Final = (LOAD_TVM, "tunefarm.startup.preloading:load_search")
PRELOAD_TO_SEND: Final = (LOAD_TVM, "tunefarm.startup.preloading:load_intake")
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
