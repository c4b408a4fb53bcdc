"""Whether a scheduled function computes all its results.

TVM's ``reverse_compute_at`` moves a block to where its input is computed, tile by tile, and computes of it what depends
on that input. A block that pads its input has elements that depend on none: no tile computes them.
"""

from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import Range
from tvm.sym import Analyzer

from tunefarm_search.tvm.workload import ENTRY


def writes_all_results(module: tvm.IRModule) -> bool:
    """Whether the loops around each block that writes a parameter reach both ends of its iterators."""
    function, analyzer = module[ENTRY], Analyzer()
    parameters = set(function.params)
    realized: list[Any] = []

    def bind_loop(loop: Any) -> None:
        analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent), True)

    def note(realize: Any) -> None:
        for iterator in realize.block.iter_vars:
            analyzer.bind(iterator.var, iterator.dom, True)
        if any(write.source in parameters for write in realize.block.writes):
            realized.append(realize)

    tvm_ffi.structural_walk(function.body, [(tirx.For, bind_loop), (s_tir.SBlockRealize, note)], order="pre")
    return all(
        _reaches_ends(iterator.dom, value, analyzer)
        for realize in realized
        for iterator, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
    )


def _reaches_ends(domain: Any, value: Any, analyzer: Analyzer) -> bool:
    bound, first = analyzer.const_int_bound(value), int(domain.min)
    return bool(bound.min_value <= first and bound.max_value >= first + int(domain.extent) - 1)
