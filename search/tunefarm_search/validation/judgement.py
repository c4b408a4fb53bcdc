"""Checks a module from outside against the allow-lists, node by node.

The check reads the module as TVM serialises it after loading it, or after applying a trace: each name then has only one
spelling, regardless of how the input escaped or nested it.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import tvm
from tvm_ffi.serialization import to_json_graph_str

from tunefarm_search.tvm.tensor_intrinsics.matrix_tiles import TILE_INTRINSICS
from tunefarm_search.tvm.workload import ENTRY
from tunefarm_search.validation.permitted_nodes import (
    ADDRESS,
    ANNOTATION_VALUES,
    ANNOTATIONS,
    ARITHMETIC,
    DEVICE_FUNCTIONS,
    FUNCTION_ATTRIBUTES,
    LLVM_CALLS,
    LLVM_INTRINSICS,
    LOADABLE_FAMILIES,
    NAME,
    NAMED_CALLS,
    NEVER_LOADED,
    NODES,
    PLAIN_NODES,
    SCHEDULING,
    WORD,
)

Node = Mapping[str, Any]
SHOWN: Final = 100
_OPERATORS: Final = ARITHMETIC | SCHEDULING | LLVM_CALLS | NAMED_CALLS


class NotPermitted(ValueError):
    """Raised for a forbidden part of a module; the text completes a sentence that begins with "it"."""


def require_permitted(module: Any, callees: Collection[str] = (), *, with_tiles: bool = False) -> None:
    """Accept a module of one TIR function that only computes.

    ``callees`` are names of functions outside of the module that it may call; ``with_tiles`` permits the instructions
    of a matrix unit, whose calls do not state all that they access.

    Raises:
        NotPermitted: it calls, imports or names something that is not on the lists.
    """
    _Judge(_nodes(module), callees, with_tiles=with_tiles).judge()


def named_callees(module: Any) -> frozenset[str]:
    """Names of the functions that a module calls by name."""
    judge = _Judge(_nodes(module), ())
    calls = (node["data"] for node in judge.nodes if node["type"] == "ir.Call")
    return frozenset(judge.text_of_first(call) for call in calls if judge.operator(call) in NAMED_CALLS)


def foreign_node(module_json: str, also: Collection[str] = ()) -> str | None:
    """The type of a node that modules of TIR and Relax functions do not have, or None. Does not need TVM.

    ``also`` are types that are accepted besides.

    Raises:
        ValueError: it is not a list of nodes.
    """
    value = json.loads(module_json)
    nodes = value.get("nodes") if isinstance(value, dict) else None
    if not isinstance(nodes, list) or not all(isinstance(node, dict) for node in nodes):
        raise ValueError("it is not what tvm.ir.save_json writes: an object with nodes")
    for node in nodes:
        kind = node.get("type")
        if not isinstance(kind, str):
            raise ValueError("a node has no type")
        known = kind in PLAIN_NODES or kind.startswith(LOADABLE_FAMILIES)
        if not known or (kind in NEVER_LOADED and kind not in also):
            return kind
    return None


def _nodes(module: Any) -> Sequence[Node]:
    nodes: Sequence[Node] = json.loads(to_json_graph_str(module))["nodes"]
    return nodes


class _Judge:
    """One module's nodes, which refer to each other by number."""

    def __init__(self, nodes: Sequence[Node], callees: Collection[str], *, with_tiles: bool = False) -> None:
        self.nodes = nodes
        self._callees = callees
        self._intrinsics = (*LLVM_INTRINSICS, *TILE_INTRINSICS) if with_tiles else LLVM_INTRINSICS
        self._operators = _OPERATORS | {ADDRESS} if with_tiles else _OPERATORS
        self._by_type: Mapping[str, Callable[[Any], None]] = {
            "ir.Call": self._call,
            "ir.GlobalVar": self._global_name,
            "ir.IRModule": self._module,
            "ir.Op": self._op,
            "ir.Var": self._variable,
            "s_tir.SBlock": self._block,
            "tirx.AllocBuffer": self._annotated,
            "tirx.AttrStmt": self._attribute,
            "tirx.BufferType": self._buffer,
            "tirx.For": self._annotated,
            "tirx.IterVar": self._iterator,
            "tirx.PrimFunc": self._function,
        }

    def judge(self) -> None:
        """Raises NotPermitted."""
        functions = 0
        for node in self.nodes:
            kind = node["type"]
            if kind not in NODES:
                raise NotPermitted(f"holds a node of the type {kind[:SHOWN]!r}, which is not allowed")
            check = self._by_type.get(kind)
            if check is not None:
                check(node["data"])
                functions += kind == "tirx.PrimFunc"
        if functions != 1:
            raise NotPermitted(f"has {functions} functions, and one is tuned at a time")

    def operator(self, call: Any) -> str | None:
        """The name of the operator of a call; None if it calls something else."""
        operator = self.nodes[call["op"]]
        return str(operator["data"]) if operator["type"] == "ir.Op" else None

    def text_of_first(self, call: Any) -> str:
        """The first argument of a call as a string, and a question mark if it is not one."""
        arguments = self._items(call["args"])
        if not arguments or arguments[0]["type"] != "ir.StringImm":
            return "?"
        return self._text(arguments[0]["data"]["value"])

    def _call(self, call: Any) -> None:
        name = self.operator(call)
        if name is None:
            raise _not_called(self._function_name(self.nodes[call["op"]]))
        arguments = self._items(call["args"])
        short = name.removeprefix("tirx.")
        if name in NAMED_CALLS:
            callee = self.text_of_first(call)
            if callee not in self._callees and callee not in DEVICE_FUNCTIONS:
                raise _not_called(f"{short}({callee[:SHOWN]!r})")
            arguments = arguments[1:]
        elif name in LLVM_CALLS:
            intrinsic = self._intrinsic(arguments)
            if not any(intrinsic == known or intrinsic.startswith(f"{known}.") for known in self._intrinsics):
                raise _not_called(f"{short}({intrinsic!r})")
        for argument in arguments:
            if argument["type"] == "ir.StringImm":
                self._require(WORD, self._text(argument["data"]["value"]), f"gives {short} the string")
        if self._has_attributes(call):
            raise _not_called(f"{short} with attributes")

    def _has_attributes(self, call: Any) -> bool:
        attributes = self.nodes[call.get("attrs", 0)]
        if attributes["type"] == "ir.DictAttrs":
            return bool(self._items(attributes["data"]["__dict__"]))
        return str(attributes["type"]) != "None"

    def _op(self, name: Any) -> None:
        if name not in self._operators:
            raise _not_called(str(name)[:SHOWN])

    def _function_name(self, function: Node) -> str:
        data = function.get("data")
        name = data.get("name_hint") if isinstance(data, dict) else None
        return self._text(name)[:SHOWN] if isinstance(name, int) else str(function["type"])

    def _intrinsic(self, arguments: Sequence[Node]) -> str:
        if not arguments or arguments[0]["type"] != "ir.IntImm":
            return "unknown"
        number = self.nodes[arguments[0]["data"]["value"]]["data"]
        return str(tvm.target.codegen.llvm_get_intrinsic_name(number)) if number else "unknown"

    def _module(self, module: Any) -> None:
        for part in ("attrs", "global_infos"):
            node = self.nodes[module[part]]
            content = node["data"]["__dict__"] if node["type"] == "ir.DictAttrs" else module[part]
            if node["type"] != "None" and self._items(content):
                raise NotPermitted(f"has {part} beside its function, which is not allowed")

    def _function(self, function: Any) -> None:
        for key, value in self._entries(self.nodes[function["attrs"]]["data"]["__dict__"]):
            if key not in FUNCTION_ATTRIBUTES:
                raise NotPermitted(f"has the function attribute {key[:SHOWN]!r}, which is not allowed")
            if key == "global_symbol" and self._text(value) != ENTRY:
                raise NotPermitted(f"has a function of the symbol {self._text(value)[:SHOWN]!r} and not {ENTRY!r}")
            self._value(key, value)

    def _global_name(self, variable: Any) -> None:
        if self._text(variable["name_hint"]) != ENTRY:
            raise NotPermitted(f"names the function {self._text(variable['name_hint'])[:SHOWN]!r} and not {ENTRY!r}")

    def _variable(self, variable: Any) -> None:
        self._require(NAME, self._text(variable["name"]), "has the name")

    def _iterator(self, iterator: Any) -> None:
        self._require(WORD, self._text(iterator["thread_tag"]), "has the thread")

    def _buffer(self, buffer: Any) -> None:
        self._require(WORD, self._text(buffer["storage_scope"]), "has the storage scope")

    def _block(self, block: Any) -> None:
        self._require(NAME, self._text(block["name_hint"]), "has the name")
        self._annotated(block)

    def _annotated(self, holder: Any) -> None:
        for key, value in self._entries(holder["annotations"]):
            self._annotation(key, value)

    def _attribute(self, statement: Any) -> None:
        key = self._text(statement["attr_key"])
        if key not in ANNOTATIONS:
            raise NotPermitted(f"has the annotation {key[:SHOWN]!r}, which is not allowed")
        value = self.nodes[statement["value"]]
        if value["type"] == "ir.StringImm":
            self._value(key, statement["value"])

    def _annotation(self, key: str, value: int) -> None:
        if key not in ANNOTATIONS:
            raise NotPermitted(f"has the annotation {key[:SHOWN]!r}, which is not allowed")
        self._value(key, value)

    def _value(self, key: str, number: int, depth: int = 8) -> None:
        """Numbers, words, and lists of those."""
        node = self.nodes[number]
        kind = node["type"]
        if kind not in ANNOTATION_VALUES or depth == 0:
            raise NotPermitted(f"has a {kind[:SHOWN]} in the annotation {key!r}, which is not allowed")
        if kind in {"ffi.Array", "ffi.Map"}:
            for item in node["data"]:
                self._value(key, item, depth - 1)
        elif kind in {"str", "ffi.String"}:
            self._require(WORD, str(node["data"]), f"has in the annotation {key!r}")
        elif kind == "ir.StringImm":
            self._value(key, node["data"]["value"], depth - 1)

    def _items(self, number: int) -> Sequence[Node]:
        return [self.nodes[each] for each in self.nodes[number].get("data") or ()]

    def _entries(self, number: int) -> list[tuple[str, int]]:
        """Keys of a map with the numbers of their values."""
        flat = self.nodes[number].get("data") or ()
        return [(self._text(key), value) for key, value in zip(flat[::2], flat[1::2], strict=True)]

    def _text(self, place: Any) -> str:
        """A string, which a node holds itself or by number."""
        return str(self.nodes[place]["data"]) if isinstance(place, int) else str(place)

    @staticmethod
    def _require(pattern: Any, text: str, what: str) -> None:
        if pattern.fullmatch(text) is None:
            raise NotPermitted(f"{what} {text[:SHOWN]!r}, which is not allowed")


def _not_called(callee: str) -> NotPermitted:
    return NotPermitted(f"calls {callee}, which is not allowed")
