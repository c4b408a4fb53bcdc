"""Checks each access of a lowered function: proven inside, proven outside, or asserted at run time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any, Final

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call, Op, StringImm, TensorLoad

from tunefarm_search.validation.index_range import Condition, Fact, Known, Span, fit, holds_load, witness
from tunefarm_search.validation.permitted_nodes import ARITHMETIC, LLVM_CALLS
from tunefarm_search.validation.tile_intrinsics import first_elements
from tunefarm_search.validation.warp_intrinsics import ALL_REDUCE, Elements, fragment_accesses

_LAZY: Final = "prim.if_then_else"
_DATA: Final = "tirx.buffer_data"
_MASKED_LOAD: Final = "tirx.masked_load"
_MASKED_STORE: Final = "tirx.masked_store"
_PLAIN: Final = (ARITHMETIC | LLVM_CALLS) - {"tirx.undef"}
"""Operators that return a value and access no memory. An undefined value may differ each time it is read, so an
assertion about it says nothing about the access."""
_BY_NAME: Final = ("extern", "packed")
"""Calls of functions by name are allowed or refused by name elsewhere; their accesses are not visible here."""
_SHOWN: Final = 200


class AccessCheck:
    """Walks a function once. The findings are available after ``rewritten``."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._facts: list[Fact] = []
        self._inside_expression = 0
        """How many of the last facts hold only inside the current statement."""
        self._assertions: list[Any] = []
        self._jumps = False
        self.outside: str | None = None
        self.opaque: str | None = None
        self.has_assertions = False
        self.reads_indices = False
        self._bits: dict[Any, int] = {}
        for parameter in function.params:
            self._hold(parameter)

    def rewritten(self) -> Any:
        """The function with an assertion before each access that is not proven to stay inside."""
        body = self._function.body
        self._jumps = _holds(body, (tirx.Break, tirx.Continue, tirx.Return, tirx.AssertStmt, tirx.While))
        callbacks = [
            (tirx.For, self._of_loop),
            (tirx.While, self._of_while),
            (tirx.IfThenElse, self._of_branch),
            (tirx.AttrStmt, self._of_attribute),
            (tirx.AllocBuffer, self._of_allocation),
            (tirx.DeclBuffer, self._of_view),
            (tirx.BufferStore, self._of_store),
            (tirx.Bind, self._of_binding),
            ((tirx.Evaluate, tirx.AssertStmt, tirx.Return), self._of_statement),
            (tirx.TilePrimitiveCall, self._of_primitive),
            (TensorLoad, self._of_load),
            (Call, self._of_call),
            (tirx.Select, self._of_select),
            (tirx.Let, self._of_let),
        ]
        return self._function.with_body(tvm_ffi.structural_mutate(body, callbacks))

    def _of_loop(self, loop: Any, mutator: Any) -> Any:
        assertions = self._visited(mutator, loop.min, loop.extent)
        with self._where(Span(loop.loop_var, loop.min, loop.extent)):
            body = mutator.mutate(loop.body)
        if body.same_as(loop.body):
            return _after(assertions, loop)
        # An assertion cannot stand in a vector, and unrolled ones take long to compile.
        runs_alone = loop.kind in {tirx.ForKind.VECTORIZED, tirx.ForKind.UNROLLED}
        kind = tirx.ForKind.SERIAL if runs_alone else loop.kind
        shape = (loop.loop_var, loop.min, loop.extent, kind, body)
        return _after(assertions, tirx.For(*shape, loop.thread_binding, loop.annotations, loop.step))

    def _of_while(self, loop: Any, mutator: Any) -> Any:
        if self._visited(mutator, loop.condition):
            self._call_opaque("the condition of a while loop reads a tensor at an index that is not proven")
        body = mutator.mutate(loop.body)
        return loop if body.same_as(loop.body) else tirx.While(loop.condition, body)

    def _of_branch(self, branch: Any, mutator: Any) -> Any:
        assertions = self._visited(mutator, branch.condition)
        with self._where(Condition(branch.condition)):
            then_case = mutator.mutate(branch.then_case)
        else_case = branch.else_case
        if else_case is not None:
            with self._where(Condition(tirx.Not(branch.condition))):
                else_case = mutator.mutate(else_case)
        return _after(assertions, tirx.IfThenElse(branch.condition, then_case, else_case))

    def _of_attribute(self, attribute: Any, mutator: Any) -> Any:
        assertions = self._visited(mutator, attribute.value)
        facts: list[Fact] = []
        if str(attribute.attr_key) in {"thread_extent", "virtual_thread"}:
            facts = [Span(attribute.node.var, tirx.const(0, "int32"), attribute.value)]
        with self._where(*facts):
            body = mutator.mutate(attribute.body)
        if body.same_as(attribute.body):
            return _after(assertions, attribute)
        if str(attribute.attr_key).startswith("pragma_"):
            return _after(assertions, body)  # unrolled assertions take LLVM half a minute
        return _after(assertions, tirx.AttrStmt(attribute.node, attribute.attr_key, attribute.value, body))

    def _of_allocation(self, allocation: Any, _mutator: Any) -> Any:
        buffer = allocation.buffer
        self._hold(buffer)
        if buffer in self._bits and len(buffer.strides) > 0 and isinstance(buffer.strides[0], tirx.IntImm):
            # TVM allocates whole strides of the first axis: the rows of shared memory may have padding.
            self._bits[buffer] = int(buffer.strides[0]) * int(buffer.shape[0]) * _element_bits(buffer)
        return allocation

    def _of_view(self, view: Any, _mutator: Any) -> Any:
        """A view has the size of the underlying memory, whatever it declares."""
        data = view.data
        is_whole = isinstance(data, Call) and _name(data) == _DATA and data.args[0] in self._bits
        if not is_whole:
            self._call_opaque(f"buffer {view.buffer.name} is made of the pointer {_text(data)}")
        else:
            self._bits[view.buffer] = self._bits[data.args[0]]
        return view

    def _of_store(self, store: Any, mutator: Any) -> Any:
        with self._statement() as assertions:
            mutator.mutate(store.value)
            for index in store.indices:
                mutator.mutate(index)
            self._check(store.buffer, store.indices)
        return _after(assertions, store)

    def _of_binding(self, binding: Any, mutator: Any) -> Any:
        """The variable is known from here to the end of the enclosing statement."""
        assertions = self._visited(mutator, binding.value)
        self._facts.append(Known(binding.var, binding.value))
        return _after(assertions, binding)

    def _of_statement(self, statement: Any, mutator: Any) -> Any:
        with self._statement() as assertions:
            mutator.default_mutate(statement)
        return _after(assertions, statement)

    def _of_primitive(self, primitive: Any, _mutator: Any) -> Any:
        self._call_opaque(f"{_text(primitive)} accesses whole regions")
        return primitive

    def _of_load(self, load: Any, mutator: Any) -> Any:
        for index in load.indices:
            mutator.mutate(index)
        self._check(load.source, load.indices)
        return load

    def _of_call(self, call: Any, mutator: Any) -> Any:
        name = _name(call)
        if name == _LAZY:
            return self._of_choice(call, call.args, mutator)
        if name in {_MASKED_LOAD, _MASKED_STORE}:
            first = 1 if name == _MASKED_LOAD else 2
            for argument in call.args[1:]:
                mutator.mutate(argument)
            self._check(call.args[0], call.args[first:-1])  # of all lanes, whatever the mask
            return call
        by_name = name is not None and any(word in name for word in _BY_NAME)
        if name == ALL_REDUCE:
            return mutator.default_mutate(call)
        of_tiles = first_elements(call)
        if of_tiles is not None:
            for element in of_tiles:
                mutator.mutate(element)
            return call
        accesses = fragment_accesses(call)
        if accesses is not None and all(map(self._is_inside, accesses)):
            for accessed in accesses:
                mutator.mutate(accessed.index)
            return call
        is_plain = name in _PLAIN and not self._takes_memory(call)
        if not is_plain and not by_name:
            self._call_opaque(f"{_text(call)} may access any memory")
        return mutator.default_mutate(call) if is_plain else call

    def _of_select(self, select: Any, mutator: Any) -> Any:
        """TVM's pass ``RewriteUnsafeSelect`` evaluates only the selected branch if one of them loads."""
        return self._of_choice(select, (select.condition, select.true_value, select.false_value), mutator)

    def _of_choice(self, choice: Any, parts: Any, mutator: Any) -> Any:
        condition, chosen, otherwise = parts
        mutator.mutate(condition)
        for fact, value in ((condition, chosen), (tirx.Not(condition), otherwise)):
            with self._where(Condition(fact), in_expression=True):
                mutator.mutate(value)
        return choice

    def _of_let(self, let: Any, mutator: Any) -> Any:
        mutator.mutate(let.value)
        with self._where(Known(let.var, let.value), in_expression=True):
            mutator.mutate(let.body)
        return let

    def _hold(self, buffer: Any) -> None:
        """Record the size in bits of a buffer's own memory."""
        is_constant = isinstance(buffer.ty, tirx.BufferType) and all(
            isinstance(extent, tirx.IntImm) for extent in buffer.shape
        )
        if not is_constant or len(buffer.allocated_addr) > 0:
            self._call_opaque(f"{buffer.name} is no buffer with constant extents and memory of its own")
            return
        self._bits[buffer] = prod(int(extent) for extent in buffer.shape) * _element_bits(buffer)

    def _is_inside(self, accessed: Elements) -> bool:
        if accessed.buffer not in self._bits:
            return False
        elements = self._bits[accessed.buffer] // _element_bits(accessed.buffer)
        positions = (elements - accessed.count) // accessed.count_of_index + 1
        return fit([(accessed.index, positions)], self._facts)

    def _takes_memory(self, call: Any) -> bool:
        return any(isinstance(argument, tirx.Var) and argument in self._bits for argument in call.args)

    def _check(self, buffer: Any, indices: Any) -> None:
        """Prove an access, refute it, or assert it before the current statement."""
        if buffer not in self._bits or not (buffer.layout is None or buffer.layout.is_trivial()):
            self._call_opaque(f"the memory of buffer {buffer.name} is not known")
            return
        points = _points(indices)
        if points is None:
            self._call_opaque(f"buffer {buffer.name} is accessed at the vectors {_text(indices)}")
            return
        for point in points:
            self._check_point(buffer, point)

    def _check_point(self, buffer: Any, point: Sequence[Any]) -> None:
        bits = _element_bits(buffer)
        elements = self._bits[buffer] // bits
        is_whole = _is_compact(buffer) and _size(buffer) * bits <= self._bits[buffer]
        if is_whole and fit(zip(point, map(int, buffer.shape), strict=True), self._facts):
            return
        index = _flat(buffer, point)
        if fit([(index, elements)], self._facts):
            return
        subscripts = ", ".join(map(_text, point))
        text = f"buffer {buffer.name} has memory for {elements} elements; {buffer.name}[{subscripts}] is element"
        found = None if self._jumps or self.outside else witness(index, elements, self._facts)
        if found is not None:
            self.outside = self.outside or f"{text} {found}."
        self._assert(index, elements, f"{text} {_text(index)}, which lies outside.")

    def _assert(self, index: Any, elements: int, message: str) -> None:
        self.has_assertions = True
        self.reads_indices = self.reads_indices or holds_load(index)
        wide = tirx.Cast("int64", index)
        inside = tirx.And(tirx.const(0, "int64") <= wide, wide < tirx.const(elements, "int64"))
        for fact in reversed(self._facts[len(self._facts) - self._inside_expression :]):
            if isinstance(fact, Known):
                inside = tirx.Let(fact.variable, fact.value, inside)
            elif isinstance(fact, Condition):
                # Not an Or, which evaluates both sides.
                inside = tvm.tirx.op.if_then_else(fact.condition, inside, tirx.const(1, "bool"))
        self._assertions.append(tirx.AssertStmt(inside, StringImm("RuntimeError"), [StringImm(message)]))

    def _visited(self, mutator: Any, *expressions: Any) -> list[Any]:
        """The assertions for expressions of one statement."""
        with self._statement() as assertions:
            for expression in expressions:
                mutator.mutate(expression)
        return assertions

    @contextmanager
    def _statement(self) -> Iterator[list[Any]]:
        outer, self._assertions = self._assertions, []
        depth, self._inside_expression = self._inside_expression, 0
        try:
            yield self._assertions
        finally:
            self._assertions, self._inside_expression = outer, depth

    @contextmanager
    def _where(self, *facts: Fact, in_expression: bool = False) -> Iterator[None]:
        length = len(self._facts)
        self._facts += facts
        self._inside_expression += len(facts) if in_expression else 0
        yield
        self._inside_expression -= len(facts) if in_expression else 0
        del self._facts[length:]

    def _call_opaque(self, reason: str) -> None:
        self.opaque = self.opaque or f"{reason}, so that its accesses cannot be checked."


def _after(assertions: list[Any], statement: Any) -> Any:
    return tirx.SeqStmt([*assertions, statement]) if assertions else statement


def _points(indices: Sequence[Any]) -> list[tuple[Any, ...]] | None:
    """The first and the last element that the indices access; None if unknown."""
    scalars = [index.value if isinstance(index, tirx.Broadcast) else index for index in indices]
    ramps = [index for index in scalars if isinstance(index, tirx.Ramp)]
    if not ramps and all(_lanes(index) == 1 for index in scalars):
        return [tuple(scalars)]
    if len(ramps) != 1 or not isinstance(ramps[0].lanes, tirx.IntImm):
        return None
    (ramp,) = ramps
    ends = (ramp.base, ramp.base + ramp.stride * (int(ramp.lanes) - 1))
    points = [tuple(end if index is ramp else index for index in scalars) for end in ends]
    return points if all(_lanes(index) == 1 for point in points for index in point) else None


def _lanes(index: Any) -> int:
    return int(tvm_ffi.dtype(index.ty.dtype).lanes)


def _flat(buffer: Any, point: Sequence[Any]) -> Any:
    """The element of its memory that a point of a buffer accesses."""
    offset = buffer.elem_offset if buffer.elem_offset is not None else tirx.const(0, "int32")
    if len(buffer.strides) > 0:
        return sum((index * stride for index, stride in zip(point, buffer.strides, strict=True)), offset)
    row_major = tirx.const(0, "int32")
    for index, extent in zip(point, buffer.shape, strict=True):
        row_major = row_major * extent + index
    return row_major + offset


def _is_compact(buffer: Any) -> bool:
    is_static = all(isinstance(extent, tirx.IntImm) for extent in buffer.shape)
    return is_static and len(buffer.strides) == 0 and _is_zero(buffer.elem_offset)


def _size(buffer: Any) -> int:
    return prod(int(extent) for extent in buffer.shape)


def _element_bits(buffer: Any) -> int:
    bits = int(buffer.dtype.bits)
    return (8 if str(buffer.dtype) == "bool" else bits) * int(buffer.dtype.lanes)


def _name(call: Any) -> str | None:
    return str(call.op.name) if isinstance(call.op, Op) else None


def _is_zero(expression: Any) -> bool:
    return expression is None or (isinstance(expression, tirx.IntImm) and int(expression) == 0)


def _holds(body: Any, kinds: tuple[type, ...]) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(body, [(kind, found.append) for kind in kinds], order="post")
    return bool(found)


def _text(expression: Any) -> str:
    text = " ".join(line for line in str(expression).splitlines() if not line.lstrip().startswith("#")).strip()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
