"""The smallest parts of a model that a library can run: a function that TVM fused, or those of one operator."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax

from tunefarm_search.relax.expressions import extents_of, operator_of, viewed_by
from tunefarm_search.relax.library_regions.values import ValueNumbers, value_of
from tunefarm_search.relax.preparation import PreparedModel

Unsupported = Callable[[Any, Any], str | None]
"""Why a binding of the module of operators cannot be converted for a library; None if it can be."""


@dataclass(frozen=True)
class Unit:
    """Bindings of a prepared entry that a library runs together or not at all.

    Attributes:
        entry: the name of the function.
        block: the position of the dataflow block in it.
        variables: what the bindings define, in order.
        functions: the names of the TIR functions that they call.
        operators: the names of the variables of the operators that they compute, in the stage ``operators``.
        problem: why no library can run it; empty if one can.
    """

    entry: str
    block: int
    variables: tuple[Any, ...]
    functions: tuple[str, ...]
    operators: tuple[str, ...]
    problem: str


class EntrySources:
    """How the bindings of a prepared entry relate to the operators that it was made of."""

    def __init__(self, prepared: PreparedModel, entry: str) -> None:
        """Relate them by the values that they compute."""
        stages, numbers = prepared.stages, ValueNumbers()
        operators = stages.operators[entry]
        self.bindings = {binding.var.name: binding for binding in _bindings(operators)}
        self.order = {name: at for at, name in enumerate(self.bindings)}
        self.operator_inputs = list(operators.params)
        self.inputs = list(prepared.module[entry].params)
        legalized, known = stages.legalized, numbers.of_parameters(stages.legalized[entry])
        self.operator_of: dict[int, str] = {}
        self._number_of: dict[str, int] = {}
        for binding in _bindings(legalized[entry]):
            number = numbers.of_value(value_of(binding), known, legalized, set())
            known[binding.var] = number
            if binding.var.name in self.bindings:
                self.operator_of.setdefault(number, binding.var.name)
                self._number_of[binding.var.name] = number
        self.computed: dict[str, tuple[int, frozenset[int]]] = {}
        grouped, known = stages.grouped, numbers.of_parameters(stages.grouped[entry])
        for binding in _bindings(grouped[entry]):
            computed: set[int] = set()
            known[binding.var] = numbers.of_value(value_of(binding), known, grouped, computed)
            self.computed[binding.var.name] = known[binding.var], frozenset(computed)
        self._variables: dict[int, list[Any]] = {}
        self._viewed: dict[str, Any] = {}  # variables, by the names of their views
        for binding in _bindings(prepared.module[entry]):
            number, _ = self.computed.get(binding.var.name, (-1, frozenset()))
            self._variables.setdefault(number, []).append(binding.var)
            if (viewed := viewed_by(value_of(binding), prepared.module)) is not None:
                self._viewed[binding.var.name] = viewed

    def operators_of(self, variables: Iterable[Any]) -> set[str]:
        """The names of the operators that the bindings of ``variables`` compute. Views compute none."""
        found: set[str] = set()
        for variable in variables:
            if self.is_view(variable):
                continue
            number, computed = self.computed.get(variable.name, (-1, frozenset()))
            found |= {self.operator_of[each] for each in (number, *computed) if each in self.operator_of}
        return found

    def operator_of_variable(self, variable: Any) -> str | None:
        """The operator whose result a variable of the prepared module holds."""
        number, _ = self.computed.get(variable.name, (-1, frozenset()))
        return self.operator_of.get(number)

    def is_view(self, variable: Any) -> bool:
        """Whether a variable of the prepared module holds another in another shape."""
        return variable.name in self._viewed

    def is_between(self, variable: Any) -> bool:
        """Whether a variable holds, or views, what is neither an input nor the result of an operator."""
        while self.is_view(variable):
            variable = self._viewed[variable.name]
        return variable.name in self.computed and self.operator_of_variable(variable) is None

    def variable_of_operator(self, name: str) -> Any:
        """The variable of the prepared module that holds the result of an operator; None if none does.

        It may have another shape, if no view has that of the operator.
        """
        holding = self._variables.get(self._number_of.get(name, -2), [])
        shape = extents_of(self.bindings[name].var)
        return next((each for each in holding if extents_of(each) == shape), holding[0] if holding else None)

    def closure(self, names: set[str]) -> "OperatorClosure":
        """What is needed to compute the operators ``names``, and nothing else that the prepared module computes."""
        operators, inputs, waiting = set(names), {}, sorted(names)
        numbers = {self._number_of.get(name) for name in names}
        while waiting:
            for variable in relax.analysis.free_vars(value_of(self.bindings[waiting.pop()])):
                name = str(variable.name)
                if name in operators or variable in inputs:
                    continue
                if name not in self.bindings:
                    at = next(at for at, each in enumerate(self.operator_inputs) if each.same_as(variable))
                    inputs[variable] = self.inputs[at]
                elif self._number_of.get(name) not in numbers and (held := self.variable_of_operator(name)) is not None:
                    inputs[variable] = held
                else:
                    operators.add(name)
                    waiting.append(name)
        return OperatorClosure(tuple(sorted(operators, key=self.order.__getitem__)), inputs)


@dataclass(frozen=True)
class OperatorClosure:
    """Operators to compute together.

    Attributes:
        names: of their variables, in order.
        inputs: variables of the prepared module that hold what they read, by the variable of the module of operators.
    """

    names: tuple[str, ...]
    inputs: Mapping[Any, Any]

    def in_order(self) -> list[Any]:
        """The variables of the module of operators that are read. TVM gives free variables in no stable order."""
        return sorted(self.inputs, key=lambda each: str(each.name))


def units_of(prepared: PreparedModel, unsupported: Unsupported) -> tuple[Unit, ...]:
    """The units of all entries, in program order.

    What depends on no input of the entry is in none, nor are tuples that an entry returns.
    """
    return tuple(
        unit
        for entry in prepared.entries
        for unit in _units_of_entry(prepared, EntrySources(prepared, entry.name), entry.name, unsupported)
    )


def _units_of_entry(prepared: PreparedModel, sources: EntrySources, entry: str, unsupported: Unsupported) -> list[Unit]:
    function = prepared.module[entry]
    found: list[Unit] = []
    for at, block in enumerate(function.body.blocks):
        if isinstance(block, relax.DataflowBlock):
            _, bindings = by_dependence(block)
            parts = _undivided(bindings, sources, prepared.module)
            found.extend(_unit(prepared, sources, (entry, at), part, unsupported) for part in parts)
    return [unit for unit in found if unit.functions or not unit.problem]


def by_dependence(block: Any) -> tuple[list[Any], list[Any]]:
    """The bindings of a block that depend on no input of the function, and the others."""
    free: set[Any] = set()
    constant: list[Any] = []
    others: list[Any] = []
    for binding in block.bindings:
        if all(each in free for each in relax.analysis.free_vars(value_of(binding))):
            free.add(binding.var)
            constant.append(binding)
        else:
            others.append(binding)
    return constant, others


def _undivided(bindings: Sequence[Any], sources: EntrySources, module: Any) -> list[list[Any]]:
    """The bindings in parts such that a tuple is used in the part that defines it only, and views are in no part alone.

    The same holds for tensors between the functions that compute one operator. Views directly behind what they view
    belong to it, others to the next binding.
    """
    position = {binding.var: at for at, binding in enumerate(bindings)}
    first = list(range(len(bindings)))
    viewed = [viewed_by(value_of(binding), module) for binding in bindings]
    for at, binding in enumerate(bindings):
        for variable in relax.analysis.free_vars(value_of(binding)):
            if variable in position and (isinstance(variable.ty, relax.TupleType) or sources.is_between(variable)):
                for between in range(position[variable], at + 1):
                    first[between] = min(first[between], first[position[variable]])
        if viewed[at] is None:
            continue
        source = position.get(viewed[at])
        if source is not None and None not in viewed[source + 1 : at]:
            first[at] = first[source]
        elif at + 1 < len(bindings):
            first[at + 1] = first[at]
    parts: dict[int, list[Any]] = {}
    for at, binding in enumerate(bindings):
        parts.setdefault(first[at], []).append(binding)
    return list(parts.values())


def _unit(
    prepared: PreparedModel, sources: EntrySources, place: tuple[str, int], part: list[Any], unsupported: Unsupported
) -> Unit:
    variables = tuple(binding.var for binding in part)
    computing = [binding for binding in part if not sources.is_view(binding.var)]
    called = [
        value_of(binding).args[0].name_hint
        for binding in computing
        if operator_of(value_of(binding)) == "relax.call_tir"
    ]
    names = sources.operators_of(variables)
    return Unit(
        *place,
        variables,
        tuple(dict.fromkeys(map(str, called))),
        tuple(sorted(names, key=sources.order.__getitem__)),
        _problem(prepared, sources, computing, names, unsupported) or "",
    )


def _problem(
    prepared: PreparedModel, sources: EntrySources, part: list[Any], names: set[str], unsupported: Unsupported
) -> str | None:
    if not names or sources.is_between(part[-1].var):
        return "it is not computed by operators alone"
    if isinstance(part[-1].var.ty, relax.TupleType):
        return "it returns a tuple"
    closure = sources.closure(names)
    if any(isinstance(each.ty, relax.TupleType) for each in closure.inputs):
        return "it takes a tuple"
    problems = (unsupported(prepared.stages.operators, sources.bindings[name]) for name in closure.names)
    return next((problem for problem in problems if problem is not None), None)


def _bindings(function: Any) -> list[Any]:
    return [binding for block in function.body.blocks for binding in block.bindings]
