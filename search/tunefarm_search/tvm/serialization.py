"""Reading of TVM's objects from JSON, without its conversion from older versions where that changes nothing."""

import json
from typing import Any

import tvm
from tvm_ffi.serialization import from_json_graph_str


def load_json(text: str) -> Any:
    """Return the object that ``tvm.ir.save_json`` of this or an older TVM wrote.

    ``tvm.ir.load_json`` converts and writes every text again before it reads it, which takes most of its time.

    Raises TVM's errors, ``ValueError`` for what is no JSON, and ``RecursionError`` for nested values without end.
    """
    # Python's reader goes first in any case: TVM's has no bound on nesting, and would overflow the stack.
    graph = json.loads(text)
    metadata = graph.get("metadata") if isinstance(graph, dict) else None
    is_current = isinstance(metadata, dict) and metadata.get("tvm_version") == tvm.__version__
    return from_json_graph_str(text) if is_current else tvm.ir.load_json(text)
