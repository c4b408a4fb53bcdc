"""Tensor intrinsics of users, which traces carry in the names that they tensorize with.

A name is ``tunefarm.own/NAME/DIGEST/CONTENT``. The content is the description and the implementation, as compressed TVM
JSON. A trace is therefore complete wherever it goes: in a record, in an order for a worker, or in TVM's database. Two
users who give the same name to different intrinsics do not disturb each other.
"""

import base64
import json
import re
import zlib
from collections.abc import Iterator
from typing import Any, Final

import tvm
from tvm.s_tir import TensorIntrin

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import canonical_json, digest
from tunefarm_search.tvm.errors import TVM_ERRORS, last_line
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.workload import ENTRY
from tunefarm_search.validation.judgement import NotPermitted, foreign_node, require_permitted

FIELD: Final = "intrinsics"
PREFIX: Final = "tunefarm.own/"
SHORT_NAME: Final = re.compile(r"[A-Za-z_][\w.]{0,99}")
CARRIED: Final = re.compile(re.escape(PREFIX) + r"([\w.]+)/(\w+)/[\w=-]+")
MAX_CONTENT_BYTES: Final = 1 << 20
"""Of both functions as TVM JSON; those of TVM's own have 30 KB."""
_CONTENT_LEVEL: Final = 9
_SCOPES: Final = ("global", "local", "shared", "shared.dyn", "warp", "metal.simdgroup")
_SCOPE_FAMILIES: Final = ("wmma.", "m16n8k8.")
_REGISTER_FIX: Final = "Register it with TensorIntrin.register(NAME, description, implementation)."
_BUFFERS_FIX: Final = "Give both functions the same buffers in the same order."


def carried_name(name: str, description: Any, implementation: Any) -> str:
    """The name under which traces carry an intrinsic.

    Raises:
        BadInput: the functions are not a pair that can be an intrinsic.
    """
    require_pair(name, description, implementation)
    content = canonical_json([json.loads(_json(each)) for each in (description, implementation)]).encode()
    if len(content) > MAX_CONTENT_BYTES:
        problem = f"{name} has {len(content)} bytes as TVM JSON; at most {MAX_CONTENT_BYTES} are accepted."
        raise BadInput(FIELD, problem, "Write its loops as loops, and do not unroll them.")
    packed = base64.urlsafe_b64encode(zlib.compress(content, _CONTENT_LEVEL)).decode()
    return f"{PREFIX}{name}/{digest(packed)}/{packed}"


def is_carried(name: str) -> bool:
    """Whether a name contains its intrinsic."""
    return name.startswith(PREFIX)


def register_carried(name: str) -> None:
    """Make the intrinsic in ``name`` known to TVM. Idempotent.

    Loading crafted content can crash TVM: call it in a process that may die. What the implementation does is checked in
    the function that it becomes a part of.

    Raises:
        ValueError: the name does not contain an intrinsic.
    """
    if TensorIntrin.get(name, allow_missing=True) is not None:
        return
    description, implementation = (_loaded(text) for text in _content(name))
    TensorIntrin.register(name, description, implementation)


def shortened(text: str) -> str:
    """A trace as text for people: each name without its content."""
    return CARRIED.sub(lambda found: found[1], text)


def short_names(text: str) -> tuple[str, ...]:
    """The names that users gave to the intrinsics in the text of a trace, sorted."""
    return tuple(sorted({found[1] for found in CARRIED.finditer(text)}))


def carried_names(text: str) -> Iterator[str]:
    """The distinct whole names in the text of traces."""
    yield from dict.fromkeys(found[0] for found in CARRIED.finditer(text))


def require_pair(name: str, description: Any, implementation: Any) -> None:
    """Require that two functions can be an intrinsic: the same buffers in known scopes, and only computing.

    Raises:
        BadInput: they cannot.
    """
    if SHORT_NAME.fullmatch(name) is None:
        raise BadInput(FIELD, f"{name[:100]!r} is not a name for an intrinsic.", "Use letters, digits, _ and dots.")
    for role, function in (("description", description), ("implementation", implementation)):
        if not isinstance(function, tvm.tirx.PrimFunc):
            problem = f"the {role} of {name} is a {type(function).__name__}, not a TIR function."
            raise BadInput(FIELD, problem, "Write it with @T.prim_func(s_tir=True).")
    _require_same_buffers(name, _buffers(name, description), _buffers(name, implementation))
    for role, function in (("description", description), ("implementation", implementation)):
        try:
            require_permitted(_module(function))
        except NotPermitted as refused:
            fix = "Use TIR's own arithmetic, and LLVM's intrinsics that compute on registers."
            raise BadInput(FIELD, f"the {role} of {name} {refused}.", fix) from refused
    try:
        TensorIntrin(description, implementation)
    except TVM_ERRORS as error:
        raise BadInput(FIELD, f"TVM rejects {name}: {last_line(error)}", _REGISTER_FIX) from error


def _require_same_buffers(name: str, described: list[Any], implemented: list[Any]) -> None:
    if len(described) != len(implemented):
        problem = f"the description of {name} has {len(described)} buffers, its implementation {len(implemented)}."
        raise BadInput(FIELD, problem, _BUFFERS_FIX)
    for number, pair in enumerate(zip(described, implemented, strict=True)):
        first, second = (_described(buffer) for buffer in pair)
        if first != second:
            problem = f"buffer {number} of {name} is {first} in the description and {second} in the implementation."
            raise BadInput(FIELD, problem, _BUFFERS_FIX)
        scope = str(pair[0].storage_scope)
        if scope not in _SCOPES and not scope.startswith(_SCOPE_FAMILIES):
            problem = f"buffer {number} of {name} is in the unknown scope {scope[:100]!r}."
            raise BadInput(FIELD, problem, f"Use one of {', '.join(_SCOPES)}.")


def _buffers(name: str, function: Any) -> list[Any]:
    types = [parameter.ty for parameter in function.params]
    if not types or not all(isinstance(each, tvm.tirx.buffer.BufferType) for each in types):
        problem = f"a parameter of {name} is not a buffer."
        raise BadInput(FIELD, problem, "Take buffers only: T.match_buffer(a, (16,), 'float32', offset_factor=1).")
    return types


def _described(buffer: Any) -> str:
    shape = ", ".join(str(extent) for extent in buffer.shape)
    return f"{buffer.dtype}[{shape}] in {buffer.storage_scope}"


def _module(function: Any) -> Any:
    return tvm.IRModule({ENTRY: function.with_attr("global_symbol", ENTRY)})


def _json(function: Any) -> str:
    return str(tvm.ir.save_json(_module(function)))


def _content(name: str) -> list[str]:
    _, _, rest = name.partition(PREFIX)
    short, _, rest = rest.partition("/")
    expected, _, packed = rest.partition("/")
    if SHORT_NAME.fullmatch(short) is None or digest(packed) != expected:
        raise ValueError("the trace tensorizes with an intrinsic whose digest is not that of its content")
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(base64.urlsafe_b64decode(packed), MAX_CONTENT_BYTES)
        if not unpacking.eof:
            raise ValueError("it is too long")
        description, implementation = json.loads(content)
    except (ValueError, TypeError, zlib.error, RecursionError) as error:
        raise ValueError(f"the intrinsic {short} of the trace cannot be read: {error}") from error
    return [json.dumps(each) for each in (description, implementation)]


def _loaded(text: str) -> Any:
    foreign = foreign_node(text)
    if foreign is not None:
        raise ValueError(f"an intrinsic of the trace holds a node of the type {foreign[:100]!r}")
    functions = list(load_json(text).functions.values())
    if len(functions) != 1:
        raise ValueError("an intrinsic of the trace is not a pair of functions")
    return functions[0]
