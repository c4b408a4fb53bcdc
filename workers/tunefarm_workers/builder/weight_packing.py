"""Packs weights once into the layout that a schedule chose, instead of in every call.

A schedule for the packed ABI copies a constant argument into its own layout at the start of each call. This module
moves that copy to a separate function; the main function takes its result as argument.
"""

from typing import Any

import tvm
import tvm_ffi

from tunefarm_schemas.tuning.workload import TensorArgument

MAIN = "main"
PACK = "pack"
_COPY_MARK = "meta_schedule.layout_rewrite_preproc"


def split_packing(scheduled: tvm.IRModule) -> tuple[tvm.IRModule, dict[int, TensorArgument]]:
    """Split off ``pack``; return the module, and the packed arguments of ``main`` by position.

    Returns the module itself and an empty dictionary if the schedule packs nothing. ``pack`` takes the plain tensors in
    the order of their positions, then the packed ones.
    """
    function = scheduled[MAIN]
    copies = _copies_by_position(function)
    if not copies:
        return scheduled, {}
    rewritten = tvm.s_tir.transform.RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(scheduled)
    packed = {
        position: TensorArgument(
            name=str(function.params[position].name),
            shape=tuple(int(extent) for extent in target.shape),
            dtype=str(target.dtype),
            is_output=False,
        )
        for position, (target, _) in copies.items()
    }
    rewritten.update_func(rewritten.get_global_var(MAIN), rewritten[MAIN].without_attr("layout_free_buffers"))
    rewritten[PACK] = _pack_function(function, copies)
    return rewritten, packed


def _copies_by_position(function: Any) -> dict[int, tuple[Any, Any]]:
    """Map the position of each packed parameter to the buffer it is copied to, and the copying statement."""
    copies = {}
    for statement in _top_statements(function):
        for block in _blocks(statement):
            if _COPY_MARK in block.annotations:
                position = _position(function, block.reads[0].source)
                if position is not None:
                    copies[position] = (block.writes[0].source, statement)
    return dict(sorted(copies.items()))


def _top_statements(function: Any) -> list[Any]:
    body = function.body.block.body
    return list(body.seq) if isinstance(body, tvm.tirx.SeqStmt) else [body]


def _blocks(statement: Any) -> list[Any]:
    found: list[Any] = []

    def keep(block: Any) -> None:
        found.append(block)

    tvm_ffi.structural_walk(statement, (tvm.s_tir.SBlock, keep), order="post")
    return found


def _position(function: Any, buffer: Any) -> int | None:
    for position, parameter in enumerate(function.params):
        if buffer.same_as(parameter):
            return position
    return None


def _pack_function(function: Any, copies: dict[int, tuple[Any, Any]]) -> Any:
    statements = [statement for _, statement in copies.values()]
    body = statements[0] if len(statements) == 1 else tvm.tirx.SeqStmt(statements)
    root = tvm.s_tir.SBlock([], [], [], "root", body)
    plain = [function.params[position] for position in copies]
    packed = [target for target, _ in copies.values()]
    pack = tvm.tirx.PrimFunc([*plain, *packed], tvm.s_tir.SBlockRealize([], True, root))
    pack = pack.with_attr("global_symbol", PACK).with_attr("tirx.noalias", True)
    return pack.with_attr("s_tir", function.attrs["s_tir"]) if "s_tir" in (function.attrs or {}) else pack
