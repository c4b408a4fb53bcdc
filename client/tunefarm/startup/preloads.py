"""The modules that each kind of fork server loads before it forks."""

from typing import Final

LOAD_TVM: Final = "tunefarm_search.tvm.loading:load"
"""A copy of the search's constant: help and option parsing must not import the search."""
PRELOAD: Final = (LOAD_TVM, "tunefarm.startup.preloading:load")
PRELOAD_TO_SEARCH: Final = (LOAD_TVM, "tunefarm.startup.preloading:load_search")
PRELOAD_TO_SEND: Final = (LOAD_TVM, "tunefarm.startup.preloading:load_intake")
