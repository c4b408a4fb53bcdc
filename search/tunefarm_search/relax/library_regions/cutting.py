"""Puts calls of libraries in place of units of a prepared model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any, Final, NamedTuple

import tvm
import tvm_ffi
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.expressions import operator_of, with_blocks
from tunefarm_search.relax.library_regions.units import EntrySources, OperatorClosure, Unit, by_dependence
from tunefarm_search.relax.library_regions.values import value_of
from tunefarm_search.relax.preparation import PreparedModel

REGION_PREFIX: Final = "tunefarm.region."
"""Of the names under which TVM finds the functions that run regions."""


@dataclass(frozen=True)
class Region:
    """Units in a row that one library runs as one function.

    Attributes:
        name: of the function of TVM that runs it, in destination-passing style.
        library: its name.
        function: a Relax function of operators with constants, from tensors to a tensor or a tuple of tensors.
        operators: the names of its operators, in order, such as ``nn.conv2d``.
        units: the positions of the units that it runs.
    """

    name: str
    library: str
    function: Any
    operators: tuple[str, ...]
    units: tuple[int, ...]


@dataclass(frozen=True)
class CutModel:
    """A prepared model that calls ``regions``."""

    prepared: PreparedModel
    regions: tuple[Region, ...]


def cut(
    prepared: PreparedModel, units: Sequence[Unit], assignment: Sequence[str | None], *, by_unit: bool = False
) -> CutModel:
    """Replace each run of units that have the same library by a call of ``REGION_PREFIX`` and a number.

    The other functions stay what they are.

    Args:
        prepared: the model.
        units: of ``units_of``.
        assignment: for each unit the name of a library, or None for the functions of the model.
        by_unit: whether each unit is a region of its own.

    Raises:
        ValueError: a unit that no library can run has one.
    """
    if any(unit.problem for unit, library in zip(units, assignment, strict=True) if library is not None):
        raise ValueError("a unit that no library can run has one")
    module = tvm.IRModule(prepared.module.functions, attrs=prepared.module.attrs)
    regions: list[Region] = []
    for entry in prepared.entries:
        own = [_Assigned(at, *each) for at, each in enumerate(zip(units, assignment, strict=True))]
        own = [each for each in own if each.unit.entry == entry.name]
        if any(each.library is not None for each in own):
            changed = _EntryCutting(prepared, entry.name, regions, by_unit=by_unit).changed(own)
            module.update_func(module.get_global_var(entry.name), changed)
    keep = relax.transform.DeadCodeElimination([entry.name for entry in prepared.entries])
    return CutModel(replace(prepared, module=keep(module)), tuple(regions))


@dataclass(frozen=True)
class _UnitsInRow:
    """Units in a row with the same library; ``closure`` is None if they have none."""

    library: str | None
    bindings: tuple[Any, ...]
    closure: OperatorClosure | None
    units: tuple[int, ...] = ()


class _Assigned(NamedTuple):
    at: int
    unit: Unit
    library: str | None


class _EntryCutting:
    def __init__(self, prepared: PreparedModel, entry: str, regions: list[Region], *, by_unit: bool) -> None:
        self._function = prepared.module[entry]
        self._sources = EntrySources(prepared, entry)
        self._regions = regions
        self._by_unit = by_unit
        self._needed = set(relax.analysis.free_vars(self._function.body.body))

    def changed(self, assigned: Sequence[_Assigned]) -> Any:
        function = self._function
        runs = [
            self._runs(block, [each for each in assigned if each.unit.block == at])
            for at, block in enumerate(function.body.blocks)
        ]
        # A region reads the first of variables with equal values, which may not be the one that its functions read.
        for run in (run for many in runs for run in many):
            if run.closure is not None:
                self._needed.update(run.closure.inputs.values())
                self._needed.update(each for one in self._views_of_others(run) for each in _free(one))
            else:
                self._needed.update(each for one in run.bindings for each in _free(one))
        blocks = []
        for block, many in zip(function.body.blocks, runs, strict=True):
            bindings = [binding for run in many for binding in self._changed_bindings(run)]
            is_dataflow = isinstance(block, relax.DataflowBlock)
            blocks.append(relax.DataflowBlock(bindings) if is_dataflow else block)
        return with_blocks(function, blocks)

    def _runs(self, block: Any, assigned: Sequence[_Assigned]) -> list[_UnitsInRow]:
        if all(each.library is None for each in assigned):
            return [_UnitsInRow(None, tuple(block.bindings), None)]
        constant, others = by_dependence(block)
        assigned = _with_all(assigned, [binding.var for binding in others])
        by_variable = {binding.var: binding for binding in block.bindings}
        found = [_UnitsInRow(None, tuple(constant), None)]
        for many in [[each] for each in assigned] if self._by_unit else _in_rows(assigned):
            library, variables = many[0].library, [variable for each in many for variable in each.unit.variables]
            closure = None
            if library is not None:
                closure = self._sources.closure(self._sources.operators_of(variables))
            bindings = tuple(by_variable[each] for each in variables)
            found.append(_UnitsInRow(library, bindings, closure, tuple(each.at for each in many)))
        return found

    def _changed_bindings(self, run: _UnitsInRow) -> Sequence[Any]:
        """The bindings that call a region, whose results have the names of those that it replaces.

        Its tensors have the shapes of the operators, and the variables of the model perhaps those of views.
        """
        if run.closure is None or run.library is None:
            return run.bindings
        sources, kept = self._sources, [each for each in self._views_of_others(run) if each.var in self._needed]
        outputs = {
            each.var: str(sources.operator_of_variable(each.var))
            for each in run.bindings
            if each.var in self._needed and each not in kept
        }
        if not outputs:
            return kept
        types = {name: sources.bindings[name].var.ty for name in outputs.values()}
        views, call = self._call(run.library, run.units, run.closure, types)
        if len(outputs) == 1 and _has_type(*outputs, *types.values()):
            return [*kept, *views, relax.VarBinding(*outputs, call)]
        kind = next(iter(types.values())) if len(types) == 1 else relax.TupleType(list(types.values()))
        together = relax.DataflowVar(f"region{len(self._regions)}", kind)
        found = [together] if len(types) == 1 else [relax.TupleGetItem(together, at) for at in range(len(types))]
        by_name = dict(zip(types, found, strict=True))
        results = (_in_shape_of(variable, by_name[name], types[name]) for variable, name in outputs.items())
        return [*kept, *views, relax.VarBinding(together, call), *chain.from_iterable(results)]

    def _views_of_others(self, run: _UnitsInRow) -> list[Any]:
        """The bindings of a run that view what is computed outside of it."""
        own = {binding.var for binding in run.bindings}
        return [each for each in run.bindings if self._sources.is_view(each.var) and own.isdisjoint(_free(each))]

    def _call(
        self, library: str, units: tuple[int, ...], closure: OperatorClosure, types: Mapping[str, Any]
    ) -> tuple[list[Any], Any]:
        """Bindings of views for a new region, and its call, which returns the operators that ``types`` names."""
        sources = self._sources
        operators = [operator_of(value_of(sources.bindings[each])) for each in closure.names]
        name = f"{REGION_PREFIX}{len(self._regions)}"
        known = tuple(each.removeprefix("relax.") for each in operators if each)
        self._regions.append(Region(name, library, _function_of(sources, closure, list(types)), known, units))
        views: list[Any] = []
        arguments: list[Any] = []
        for each in closure.in_order():
            held = closure.inputs[each]
            if not _has_type(held, each.ty):
                view = relax.DataflowVar(f"input{len(views)}_of_region{len(self._regions)}", each.ty)
                views += _in_shape_of(view, held, held.ty)
                held = view
            arguments.append(held)
        return views, relax.op.call_dps_packed(name, relax.Tuple(arguments), list(types.values()))


def _free(binding: Any) -> list[Any]:
    return list(relax.analysis.free_vars(value_of(binding)))


def _has_type(variable: Any, kind: Any) -> bool:
    return bool(tvm_ffi.structural_equal(variable.ty, kind))


def _in_shape_of(variable: Any, value: Any, kind: Any) -> list[Any]:
    """The bindings of a variable to a tensor of type ``kind``, which may have another shape."""
    if _has_type(variable, kind):
        return [relax.VarBinding(variable, value)]
    whole = relax.DataflowVar(f"{variable.name}_whole", kind)
    view = relax.BlockBuilder().normalize(relax.op.reshape(whole, variable.ty.shape))
    return [relax.VarBinding(whole, value), relax.VarBinding(variable, view)]


def _with_all(assigned: Sequence[_Assigned], variables: Sequence[Any]) -> list[_Assigned]:
    """The units of a block in program order, and between them the bindings that are in no unit."""
    by_first = {each.unit.variables[0]: each for each in assigned}
    within = {variable for each in assigned for variable in each.unit.variables}
    found: list[_Assigned] = []
    for variable in variables:
        if variable in by_first:
            found.append(by_first[variable])
        elif variable not in within:
            found.append(_Assigned(-1, Unit("", 0, (variable,), (), (), "it is in no unit"), None))
    return found


def _in_rows(assigned: Sequence[_Assigned]) -> list[list[_Assigned]]:
    return [list(many) for _, many in groupby(assigned, key=lambda each: each.library)]


def _function_of(sources: EntrySources, closure: OperatorClosure, outputs: Sequence[str]) -> Any:
    known: dict[Any, Any] = {each: relax.Var(f"input{at}", each.ty) for at, each in enumerate(closure.in_order())}
    replacing, builder = _Replacing(known), relax.BlockBuilder()
    with builder.function("main", list(known.values())):
        with builder.dataflow():
            for name in closure.names:
                binding = sources.bindings[name]
                value = replacing.visit_expr(value_of(binding))
                known[binding.var] = builder.emit_output(value) if name in outputs else builder.emit(value)
        results = [known[sources.bindings[name].var] for name in outputs]
        builder.emit_func_output(results[0] if len(results) == 1 else relax.Tuple(results))
    return builder.get()["main"]


@mutator
class _Replacing(PyExprMutator):  # type: ignore[misc]
    def __init__(self, known: Mapping[Any, Any]) -> None:
        super().__init__()
        self._known = known

    def visit_var_(self, variable: Any) -> Any:
        return self._known.get(variable, variable)

    def visit_dataflow_var_(self, variable: Any) -> Any:
        return self._known.get(variable, variable)
