"""Two hundred hostile traces, modules, databases and targets, created by mutating a few harmless ones.

A payload creates a folder by the C library's ``mkdir``: harmless, and visible if it ran. Each item has a name, so
that a failed test names the item that was accepted.
"""

import base64
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import tvm
from tvm import te
from tvm.s_tir import Schedule

from tunefarm_search.records.asked_forms import hash_of
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.trace import trace_of

MARKER = "/tmp/tunefarm-foreign-marker"
EXTENT = 16
TARGET: dict[str, object] = {"kind": "llvm", "mcpu": "x86-64", "num-cores": 1}
CYCLE = json.dumps(
    {
        "root_index": 0,
        "nodes": [{"type": "ffi.Array", "data": [0]}],
        "metadata": {"tvm_version": str(tvm.__version__)},
    }
)
"""TVM parses it until its stack overflows."""
LLVM_TEXT = "define i32 @payload() { ret i32 0 }"


@dataclass(frozen=True)
class Hostile:
    """One item: a trace for ``module()``, a module, or a target, as the text or value of a request."""

    name: str
    value: Any


@cache
def module() -> Any:
    """B = A + 1 through a padded copy, so that it has layouts, caches and loops to misuse."""
    source = te.placeholder((EXTENT, EXTENT), name="A")
    out = te.compute((EXTENT, EXTENT), lambda i, j: source[i, j] + 1.0, name="B")
    return tvm.IRModule({"main": te.create_prim_func([source, out]).with_attr("global_symbol", "main")})


@cache
def module_json() -> str:
    return str(tvm.ir.save_json(module()))


def calls() -> dict[str, Any]:
    """Values that can only be written as a call, as floats."""
    intrin = tvm.tirx
    return {
        "call_extern": intrin.call_extern("float32", "mkdir", MARKER, 511),
        "call_pure_extern": intrin.call_pure_extern("float32", "mkdir", MARKER, 511),
        "call_packed": intrin.call_packed("runtime.ProcessSpawn", 1).astype("float32"),
        "call_cpacked": intrin.call_cpacked("mkdir", 1).astype("float32"),
        "call_llvm_intrin": intrin.call_llvm_intrin("float32", "llvm.returnaddress", intrin.const(0, "int32")),
        "call_llvm_pure_intrin": intrin.call_llvm_pure_intrin("float32", "llvm.stacksave"),
    }


def _saved(value: Any) -> str:
    return str(tvm.ir.save_json(value))


# Traces


def traces() -> Iterator[Hostile]:
    yield from _pad_values()
    yield from _annotations()
    yield from _index_maps()
    yield from _names()


def _pad_values() -> Iterator[Hostile]:
    for name, call in calls().items():
        plain = _saved(_index_map(3, lambda _, value: [value], call))
        for how, spelled in _spellings(plain).items():
            yield Hostile(f"pad value: {name}, {how}", _layout_trace(None, spelled))


def _index_maps() -> Iterator[Hostile]:
    for name, call in calls().items():
        plain = _saved(_index_map(2, lambda axes, value: [axes[0], axes[1] + value.astype("int32")], call))
        for how, spelled in _spellings(plain).items():
            yield Hostile(f"index map: {name}, {how}", _layout_trace(spelled, None))


def _index_map(axes: int, indices: Callable[[Any, Any], list[Any]], value: Any) -> Any:
    variables = [tvm.tirx.Var(f"i{axis}", "int32") for axis in range(axes)]
    return tvm.tirx.IndexMap(variables, indices(variables, value), None)


def _spellings(text: str) -> dict[str, str]:
    """A text, and the same with words of it escaped, so that no search for a word finds them."""
    found = {"plain": text}
    for how, word in itertools.product(("first", "every"), ("extern", "packed", "llvm", "mkdir")):
        if word in text:
            escaped = "".join(f"\\u{ord(letter):04x}" for letter in (word if how == "every" else word[:1]))
            rest = "" if how == "every" else word[1:]
            found[f"{word} with {how} letter escaped"] = text.replace(word, escaped + rest)
    return found


def _layout_trace(index_map: str | None, pad_value: str | None) -> Any:
    padded = _saved(tvm.tirx.IndexMap.from_func(lambda i, j: [i // 5, j, i % 5], ndim=2, index_dtype="int32"))
    steps = [
        ["GetSBlock", [], ["B", "main"], ["b0"]],
        ["CacheWrite", ["b0", []], [0, "global"], ["b1"]],
        ["TransformLayout", ["b0", index_map or padded], [0, 1, pad_value, pad_value is None], []],
    ]
    return [steps, []]


KEYS = (
    *("pragma_import_llvm", "pragma_import_c", "pragma_scope_prefix", "extern_scope", "compute_scope", "device_scope"),
    *("device_id", "device_type", "calling_conv", "target", "tirx.asm", "asm", "tirx.device_entry", "external_mods"),
    *("tirx.is_entry_func", "tirx.is_host_func", "system_lib_prefix", "coproc_scope", "link_name", "import_c", "x"),
    *("Pragma_Import_LLVM", "pragma_import_llvm ", "pragma_\u0130mport_llvm", "tensorized_nki_instruction"),
)


def _annotations() -> Iterator[Hostile]:
    for key in KEYS:
        for place, step in (("block", "b0"), ("loop", "l1")):
            yield Hostile(f"annotation of a {place}: {key}", _annotated(step, key, json.dumps(LLVM_TEXT)))
    for place, value in itertools.product(("b0", "l1"), ("a b", "x;\ny", 'a"b', "{}", "/*", "$(id)")):
        yield Hostile(f"value {value!r} of {place}", _annotated(place, "schedule_rule", json.dumps(value)))


def _annotated(place: str, key: str, value: str) -> Any:
    return [
        [
            ["GetSBlock", [], ["B", "main"], ["b0"]],
            ["GetLoops", ["b0"], [], ["l1", "l2"]],
            ["Annotate", [place, value], [key], []],
        ],
        [],
    ]


def _names() -> Iterator[Hostile]:
    for scope in ("global\n#include", 'a"b', "global);", "local{}", "a b"):
        steps = [["GetSBlock", [], ["B", "main"], ["b0"]], ["CacheRead", ["b0", []], [0, scope], ["b1"]]]
        yield Hostile(f"storage scope {scope!r}", [steps, []])
    for intrinsic in ("no.such.intrinsic", "runtime.ProcessSpawn", "x; y"):
        steps = [
            ["GetSBlock", [], ["B", "main"], ["b0"]],
            ["GetLoops", ["b0"], [], ["l1", "l2"]],
            ["Tensorize", ["l2"], [intrinsic, True], []],
        ]
        yield Hostile(f"intrinsic {intrinsic}", [steps, []])


# Modules


def modules() -> Iterator[Hostile]:
    for name, call in calls().items():
        yield Hostile(f"module: {name}", _computing(call))
        text = _computing(call)
        for how, spelled in _spellings(text).items():
            yield Hostile(f"module: {name}, {how}", spelled)
    yield from _attributed()
    yield from _renamed()
    yield from _of_nodes()


def _computing(call: Any) -> str:
    source = te.placeholder((EXTENT, EXTENT), name="A")
    out = te.compute((EXTENT, EXTENT), lambda i, j: source[i, j] + call, name="B")
    return _saved(tvm.IRModule({"main": te.create_prim_func([source, out])}))


def _attributed() -> Iterator[Hostile]:
    function = module()["main"]
    for key in KEYS:
        value: Any = tvm.target.Target(TARGET) if key == "target" else LLVM_TEXT
        yield Hostile(f"function attribute {key}", _saved(tvm.IRModule({"main": function.with_attr(key, value)})))
        schedule = Schedule(module())
        schedule.annotate(schedule.get_loops(schedule.get_sblock("B"))[0], key, LLVM_TEXT)
        yield Hostile(f"loop annotation {key}", _saved(schedule.mod))


def _renamed() -> Iterator[Hostile]:
    for name in ("x; int system", 'A"', "A\n#include", "A{", "A(int)", "A b", "\\"):
        yield Hostile(f"variable {name!r}", module_json().replace('"A"', json.dumps(name)))


def _of_nodes() -> Iterator[Hostile]:
    for kind in ("ffi.Module", "ffi.Function", "ir.ExternFunc", "relax.expr.ExternFunc", "ffi.OpaquePyObject"):
        graph = json.loads(module_json())
        graph["nodes"].append({"type": kind, "data": {"global_symbol": "mkdir"}})
        yield Hostile(f"a node of the type {kind}", json.dumps(graph))
        yield Hostile(f"{kind} as the module", json.dumps({"root_index": 0, "nodes": [{"type": kind, "data": "x"}]}))


# Targets


def targets() -> Iterator[Hostile]:
    attributes = {
        "cl-opt": ["-load=/x.so"],
        "jit": "mcjit",
        "libs": ["cublas"],
        "options": "-x",
        "system-lib": True,
        "runtime": "c",
        "link-params": True,
        "llvm-options": ["-load"],
        "mattr": ["+avx\n-load"],
        "mcpu": "x;id",
    }
    for name, value in attributes.items():
        yield Hostile(f"target attribute {name}", {**TARGET, name: value})
        host = {"kind": "llvm", "mcpu": "x86-64", name: value}
        yield Hostile(f"attribute {name} of a host", {"kind": "cuda", "arch": "sm_80", "host": host})
    for kind in ("c", "composite", "ext_dev", "test", "hybrid", "trn", "hexagon", "__import__('os')"):
        yield Hostile(f"the kind {kind}", {"kind": kind})


# Databases


def workload_line(text: str, structural_hash: str | None = None) -> str:
    content = text.encode()
    known = structural_hash or hash_of(load_json(text))
    return json.dumps([known, base64.b64encode(len(content).to_bytes(8, "little") + content).decode()])


def record_line(trace: Any, target: object = None, *, number: object = 0, times: str = "[1e-9]") -> str:
    arguments = [["TENSOR", "float32", [EXTENT, EXTENT]]] * 2
    body = f"[{json.dumps(trace)},{times},{json.dumps(target or TARGET)},{json.dumps(arguments)}]"
    return f"[{json.dumps(number)},{body}]"


def good_trace(split: int = 4) -> Any:
    schedule = Schedule(module())
    loop = schedule.get_loops(schedule.get_sblock("B"))[0]
    schedule.split(loop, [None, split])
    return json.loads(trace_of(schedule).text)


def lines() -> Iterator[Hostile]:
    """Record lines that are invalid in themselves."""
    nothing: Any = [[], []]
    yield Hostile("a latency of 400 digits", record_line(nothing, times=f"[{'9' * 400}]"))
    yield Hostile("a latency of 5,000 digits", record_line(nothing, times=f"[{'9' * 5000}]"))
    yield Hostile("a latency that is no number", record_line(nothing, times="[NaN]"))
    yield Hostile("an endless latency", record_line(nothing, times="[Infinity]"))
    yield Hostile("a latency that is true", record_line(nothing, times="[true]"))
    yield Hostile("the workload -1", record_line(nothing, number=-1))
    yield Hostile("the workload true", record_line(nothing, number=True))
    yield Hostile("nesting", "[" * 100_000)
    yield Hostile("two megabytes", "[0," + " " * (2 << 20) + "[]]")
    yield Hostile("an empty line", "")
    yield Hostile("a trace that is a number", record_line(7))
    yield Hostile("half a surrogate pair", record_line([[["GetSBlock", [], ["\ud800", "main"], ["b0"]]], []]))
    yield Hostile("an index map that holds itself", record_line(_layout_trace(CYCLE, None)))
    yield Hostile("a trace of numbers", record_line([[1, 2], [3]]))


def everything() -> dict[str, list[Hostile]]:
    makers: dict[str, Callable[[], Iterator[Hostile]]] = {
        "traces": traces,
        "modules": modules,
        "targets": targets,
        "lines": lines,
    }
    return {name: list(make()) for name, make in makers.items()}
