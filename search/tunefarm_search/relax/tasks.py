"""The tasks of a prepared model: its distinct TIR functions, and how often each entry calls them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_search.relax.expressions import is_reshape
from tunefarm_search.relax.loops.updates_in_place import updates_of, with_fast_loops
from tunefarm_search.relax.preparation import PreparedModel
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.workload import ENTRY, workload_of

Counts = Mapping[str, int]
MAX_CALLS = 1 << 20
"""Calls are counted up to this many: loops that end at data are nests of functions, each of which doubles the last."""
_SERIAL = 0
"""``ForKind.kSerial``."""
_BYTES = frozenset({"int8", "uint8"})
_ROUNDED = ("float", "bfloat", "int32")
"""Types of numbers that are rounded to them: int32 holds sums of products, or a rounded number with its zero point."""


@dataclass(frozen=True)
class ModelTask:
    """TIR functions of a model that compute the same.

    Attributes:
        workload: the first of them.
        functions: the names of all of them in the module.
        calls: how often one run of an entry calls any of them, by the name of the entry.
    """

    workload: Workload
    functions: tuple[str, ...]
    calls: Counts


def model_tasks(prepared: PreparedModel) -> tuple[ModelTask, ...]:
    """The functions that are worth a schedule, those that compute the same as one task, in order of first call.

    Leaves out reshapes, which become views, functions that are never called or that their author scheduled, and those
    that no schedule applies to, such as one that calls another function.
    """
    calls = calls_per_run(prepared)
    groups: dict[str, list[tuple[Workload, list[str]]]] = {}
    ordered: list[tuple[Workload, list[str]]] = []
    for name, function in tir_functions(prepared.module).items():
        is_called = any(name in counts for counts in calls.values())
        if not is_called or is_reshape(function) or is_scheduled(function):
            continue
        workload = _workload(name, function)
        if workload is None:
            continue
        alike = groups.setdefault(workload.structural_hash, [])
        found = next((each for each in alike if _are_equal(each[0], workload)), None)
        if found is not None:
            found[1].append(name)
            continue
        alike.append((workload, [name]))
        ordered.append(alike[-1])
    return tuple(
        ModelTask(workload, tuple(names), _sums(calls, names))
        for workload, names in sorted(ordered, key=lambda each: _first_call(calls, each[1]))
    )


def calls_per_run(prepared: PreparedModel) -> dict[str, dict[str, int]]:
    """How often one run of each entry calls each TIR function of its program, in order of first call.

    Counts both branches of a condition, and one iteration of a loop, which Relax expresses as a recursive function.
    """
    module = prepared.module
    counting = _Counting(with_fast_loops(module).module if updates_of(module) else module)
    return {entry.name: dict(counting.calls(entry.name)) for entry in prepared.entries}


def tir_functions(module: Any) -> dict[str, Any]:
    """The TIR functions of a module by name."""
    return {
        str(variable.name_hint): function
        for variable, function in sorted(module.functions.items(), key=lambda each: str(each[0].name_hint))
        if isinstance(function, tvm.tirx.PrimFunc)
    }


def rounds_to_bytes(module: Any) -> bool:
    """Whether a TIR function rounds to 8-bit integers: numbers that are nearly equal may become different ones."""
    casts: list[Any] = []
    for function in tir_functions(module).values():
        tvm_ffi.structural_walk(function.body, (tvm.tirx.Cast, casts.append), order="post")
    return any(str(each.ty.dtype) in _BYTES and str(each.value.ty.dtype).startswith(_ROUNDED) for each in casts)


def is_scheduled(function: Any) -> bool:
    """Whether a function has loops that run in parallel, in vectors or unrolled, which its author chose."""
    loops: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tvm.tirx.For, loops.append), order="post")
    return any(int(loop.kind) != _SERIAL for loop in loops)


@dataclass(frozen=True)
class _Counting:
    module: Any

    @cached_property
    def _functions(self) -> dict[str, Any]:
        return {str(variable.name_hint): function for variable, function in self.module.functions.items()}

    def calls(self, name: str) -> Counter[str]:
        """Calls of TIR functions in one call of a Relax function; a recursive call counts as none."""
        if name not in self._known:
            self._known[name] = Counter()
            found: Counter[str] = Counter()
            for callee in _callees(self._functions[name]):
                function = self._functions.get(callee)
                if isinstance(function, relax.Function):
                    found.update(self.calls(callee))
                elif function is not None:
                    found[callee] += 1
            self._known[name] = Counter({each: min(count, MAX_CALLS) for each, count in found.items()})
        return self._known[name]

    @cached_property
    def _known(self) -> dict[str, Counter[str]]:
        return {}


def _callees(function: Any) -> list[str]:
    """The names of the functions of the module that a Relax function calls, once for each call, in order."""
    found: list[str] = []

    def keep(expression: Any) -> None:
        if not isinstance(expression, relax.Call):
            return
        called = [expression.op, *expression.args]
        found.extend(str(each.name_hint) for each in called if isinstance(each, tvm.ir.GlobalVar))

    relax.analysis.post_order_visit(function.body, keep)
    return found


def _workload(name: str, function: Any) -> Workload | None:
    """The workload of a function; None if it cannot be scheduled."""
    try:
        return workload_of(tvm.IRModule({ENTRY: function}), name=name)
    except BadInput:
        return None


def _are_equal(one: Workload, other: Workload) -> bool:
    if one.module_json == other.module_json:
        return True
    return bool(tvm_ffi.structural_equal(load_json(one.module_json), load_json(other.module_json)))


def _sums(calls: Mapping[str, Counts], names: list[str]) -> dict[str, int]:
    sums = {entry: sum(counts.get(name, 0) for name in names) for entry, counts in calls.items()}
    return {entry: count for entry, count in sums.items() if count}


def _first_call(calls: Mapping[str, Counts], names: list[str]) -> tuple[int, int]:
    for position, counts in enumerate(calls.values()):
        order = list(counts)
        called = [order.index(name) for name in names if name in counts]
        if called:
            return position, min(called)
    return len(calls), 0
