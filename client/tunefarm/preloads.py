"""What each kind of zygote loads before it forks."""

from typing import Final

from tunefarm_search.tvm_loading import LOAD_TVM

PRELOAD: Final = (LOAD_TVM, "tunefarm.preloading:load")
PRELOAD_TO_SEARCH: Final = (LOAD_TVM, "tunefarm.preloading:load_search")
PRELOAD_TO_SEND: Final = (LOAD_TVM, "tunefarm.preloading:load_intake")
