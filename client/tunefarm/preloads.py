"""What each kind of zygote loads before it forks."""

from typing import Final

PRELOAD: Final = ("tvm", "tunefarm.preloading:load")
PRELOAD_TO_SEARCH: Final = ("tvm", "tunefarm.preloading:load_search")
PRELOAD_TO_SEND: Final = ("tvm", "tunefarm.preloading:load_intake")
