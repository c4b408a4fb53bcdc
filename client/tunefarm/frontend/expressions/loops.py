"""Loops whose number of steps the inputs decide, as calls of functions.

1. The first function is a step of the loop.
2. Each further one calls the one before twice, the second time where the loop goes on: the n-th runs at most two to the
   power of n steps. Relax functions that call themselves would need a stack as deep as the loop is long.
3. The loop is a call of the last one, where it runs at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tvm import relax

MAX_DOUBLINGS: Final = 31
"""A loop whose number of steps is unknown runs at most two to the power of this many."""


@dataclass(frozen=True)
class ConditionalLoop:
    """A loop over a state of one tensor or more.

    Attributes:
        builder: the block builder of the module.
        goes_on: a function of the state and of the captured values: whether there is a further step.
        step: a function of the same that gives the next state, a tuple if it has several tensors.
        parts: the number of tensors of the state.
    """

    builder: Any
    goes_on: Any
    step: Any
    parts: int

    def run(self, state: Sequence[Any], captured: Sequence[Any]) -> list[Any]:
        """The last state; all arguments and results are Relax variables."""
        steps = self.step
        for _ in range(MAX_DOUBLINGS):
            steps = self._doubled(steps, state, captured)
        return self._parts_of(self._where_it_goes_on(steps, state, captured))

    def _doubled(self, half: Any, state: Sequence[Any], captured: Sequence[Any]) -> Any:
        """A function that runs twice as many steps as ``half``, with parameters like these values."""
        parameters = [relax.Var(f"p{number}", each.ty) for number, each in enumerate([*state, *captured])]
        name = self.builder.get_unique_name("loop")
        with self.builder.function(name, parameters, private=True):
            once = self._parts_of(relax.Call(half, parameters))
            result = self._where_it_goes_on(half, once, parameters[self.parts :])
            return self.builder.emit_func_output(self.builder.emit(result))

    def _where_it_goes_on(self, steps: Any, state: Sequence[Any], captured: Sequence[Any]) -> Any:
        operands = [*state, *captured]
        condition = self.builder.emit(relax.Call(self.goes_on, operands))
        same = relax.Tuple(state) if self.parts > 1 else state[0]
        return relax.If(condition, relax.Call(steps, operands), same)

    def _parts_of(self, expression: Any) -> list[Any]:
        whole = self.builder.emit(expression)
        if self.parts == 1:
            return [whole]
        return [self.builder.emit(relax.TupleGetItem(whole, number)) for number in range(self.parts)]
