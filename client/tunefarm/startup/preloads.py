"""What each kind of zygote loads before it forks."""

from typing import Final

LOAD_TVM: Final = "tunefarm_search.tvm.loading:load"
"""Said here as well: what shows help and reads options imports nothing of the search."""
PRELOAD: Final = (LOAD_TVM, "tunefarm.startup.preloading:load")
PRELOAD_TO_SEARCH: Final = (LOAD_TVM, "tunefarm.startup.preloading:load_search")
PRELOAD_TO_SEND: Final = (LOAD_TVM, "tunefarm.startup.preloading:load_intake")
