"""What a function that came from elsewhere may call.

A module in TVM's JSON form is a list of nodes, and whatever it calls is one of them. Everything that is not named here
is refused, so that a new operator of TVM is no hole until somebody has looked at it.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import tvm

ARITHMETIC: Final = frozenset(
    {f"prim.{name}" for name in ("ceil", "clz", "if_then_else", "likely", "log2", "vscale")}
    | {
        f"tirx.{name}"
        for name in (
            *("acos", "acosh", "asin", "asinh", "assume", "atan", "atan2", "atanh", "copysign", "cos", "cosh", "ctpop"),
            *("dp4a", "erf", "exp", "exp10", "exp2", "fabs", "floor", "fma", "fmod", "hypot", "isfinite", "isinf"),
            *("isnan", "ldexp", "log", "log10", "log1p", "nearbyint", "nextafter", "popcount", "pow"),
            *("q_multiply_shift", "q_multiply_shift_per_axis", "reinterpret", "round", "rsqrt", "selector", "sigmoid"),
            *("sin", "sinh", "sqrt", "tan", "tanh", "trunc", "undef", "vectorcombine", "vectorhigh", "vectorlow"),
        )
    }
)
"""Operators that give a value and do nothing else."""

SCHEDULING: Final = frozenset(
    {
        f"tirx.{name}"
        for name in (
            *("buffer_data", "buffer_offset", "get_active_lane_mask", "ignore_loop_partition", "masked_load"),
            *("masked_store", "mma_fill", "mma_fill_legacy", "mma_store", "mma_store_legacy", "s_tir.cp_async_raw"),
            *("s_tir.ldg32", "tvm_access_ptr", "tvm_bmma_sync", "tvm_fill_fragment", "tvm_load_matrix_sync"),
            *("tvm_mma_sync", "tvm_storage_sync", "tvm_store_matrix_sync", "tvm_thread_allreduce"),
            *("tvm_thread_invariant", "tvm_tuple", "tvm_warp_activemask", "tvm_warp_shuffle", "tvm_warp_shuffle_down"),
            *("tvm_warp_shuffle_up", "tvm_warp_shuffle_xor", "type_annotation", "ptx.ldmatrix", "ptx.mma"),
            *("ptx.cp_async_ca", "ptx.cp_async_cg", "ptx.cp_async_commit_group", "ptx.cp_async_wait_group"),
            *("ptx.cp_async_wait_all", "ptx_legacy.ldmatrix", "ptx_legacy.mma"),
        )
    }
)
"""What TVM's own schedules and tensor intrinsics put into a function besides."""

LLVM_CALLS: Final = frozenset({"tirx.call_llvm_intrin", "tirx.call_llvm_pure_intrin"})
LLVM_INTRINSICS: Final = (
    *("llvm.abs", "llvm.ceil", "llvm.copysign", "llvm.ctpop", "llvm.exp", "llvm.exp2", "llvm.fabs", "llvm.floor"),
    *("llvm.fma", "llvm.fmuladd", "llvm.log", "llvm.log10", "llvm.log2", "llvm.maximum", "llvm.maxnum"),
    *("llvm.minimum", "llvm.minnum", "llvm.nearbyint", "llvm.pow", "llvm.rint", "llvm.round", "llvm.sqrt"),
    *("llvm.trunc", "llvm.x86.avx512.pmaddubs.w.512", "llvm.x86.avx512.pmaddw.d.512"),
    *("llvm.x86.avx512.vpdpbusd.512", "llvm.aarch64.neon.addp", "llvm.aarch64.neon.saddlp", "llvm.aarch64.neon.smull"),
    *("llvm.aarch64.neon.sdot", "llvm.aarch64.neon.udot", "llvm.riscv.vfmul", "llvm.riscv.vwmul"),
)
"""Intrinsics of LLVM that compute on registers; each stands for its forms for several types."""

NODE_FAMILIES: Final = ("ffi.", "ir.", "prim.", "tirx.", "s_tir.", "relax.", "arith.", "te.", "script.")
PLAIN_NODES: Final = frozenset({"None", "bool", "int", "float", "str", "DataType", "dtype", "Device"})
REFUSED_NODES: Final = frozenset({"ffi.Module", "ffi.Function", "ffi.OpaquePyObject", "ffi.Bytes", "ir.ExternFunc"})

REFUSED_PRAGMAS: Final = ("pragma_import", "pragma_scope_prefix", "extern_scope", "compute_scope", "tirx.asm", "asm")
"""Annotations that carry code of another language into the function."""


def foreign_node(module_json: str) -> str | None:
    """The type of a node that no module of TIR or Relax functions consists of, or None. TVM need not have read it.

    Raises:
        ValueError: it is not a list of nodes.
    """
    for node in _nodes(module_json):
        kind = node.get("type")
        if not isinstance(kind, str):
            raise ValueError("a node has no type")
        known = kind in PLAIN_NODES or kind.startswith(NODE_FAMILIES)
        if not known or kind in REFUSED_NODES:
            return kind
    return None


def forbidden_callee(module_json: str, allowed: Collection[str] = ()) -> str | None:
    """What the functions of a module call or import and must not, as a person would write it; None when all is well.

    ``module_json`` is the text that ``tvm.ir.save_json`` gave for a module that TVM has loaded. ``allowed`` are names
    of functions outside of it that it may call all the same.
    """
    nodes = _nodes(module_json)
    for node in nodes:
        kind, data = node["type"], node.get("data")
        if kind == "ffi.String" and isinstance(data, str) and data.lower().startswith(REFUSED_PRAGMAS):
            return data
        found = _of_call(nodes, data, allowed) if kind == "ir.Call" and isinstance(data, dict) else None
        if found is None and kind == "ir.Op":
            found = _of_operator(str(data))
        if found is not None:
            return found
    return None


def _nodes(module_json: str) -> Sequence[Mapping[str, Any]]:
    value = json.loads(module_json)
    nodes = value.get("nodes") if isinstance(value, dict) else None
    if not isinstance(nodes, list) or not all(isinstance(node, dict) for node in nodes):
        raise ValueError("it is not what tvm.ir.save_json writes: an object with nodes")
    return nodes


def _of_operator(name: str) -> str | None:
    """Calls of functions by name are told from their call, where the name stands."""
    known = name in ARITHMETIC or name in SCHEDULING or name in LLVM_CALLS
    return None if known or _calls_by_name(name) else name


def _calls_by_name(name: str) -> bool:
    return "extern" in name or "packed" in name


def _of_call(nodes: Sequence[Mapping[str, Any]], call: Mapping[str, Any], allowed: Collection[str]) -> str | None:
    operator = nodes[call["op"]]
    arguments = [nodes[index] for index in nodes[call["args"]]["data"]]
    if operator["type"] != "ir.Op":
        return _function_name(nodes, operator)
    name = str(operator["data"])
    if name in LLVM_CALLS:
        return _of_llvm(name, _number(nodes, arguments))
    if _calls_by_name(name) and (callee := _text(nodes, arguments)) not in allowed:
        return f"{name.removeprefix('tirx.')}({callee!r})"
    return None


def _function_name(nodes: Sequence[Mapping[str, Any]], function: Mapping[str, Any]) -> str:
    data = function.get("data")
    name = data.get("name_hint") if isinstance(data, dict) else None
    return str(nodes[name]["data"]) if isinstance(name, int) else str(function["type"])


def _of_llvm(name: str, number: int | None) -> str | None:
    intrinsic = str(tvm.target.codegen.llvm_get_intrinsic_name(number)) if number else "unknown"
    known = any(intrinsic == allowed or intrinsic.startswith(f"{allowed}.") for allowed in LLVM_INTRINSICS)
    return None if known else f"{name.removeprefix('tirx.')}({intrinsic!r})"


def _number(nodes: Sequence[Mapping[str, Any]], arguments: Sequence[Mapping[str, Any]]) -> int | None:
    if not arguments or arguments[0]["type"] != "ir.IntImm":
        return None
    value = nodes[arguments[0]["data"]["value"]]["data"]
    return value if isinstance(value, int) else None


def _text(nodes: Sequence[Mapping[str, Any]], arguments: Sequence[Mapping[str, Any]]) -> str:
    if not arguments or arguments[0]["type"] != "ir.StringImm":
        return "?"
    return str(nodes[arguments[0]["data"]["value"]]["data"])[:100]
