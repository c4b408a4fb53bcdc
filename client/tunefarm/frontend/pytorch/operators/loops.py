"""The converter of loops whose number of steps the inputs decide."""

from typing import Any

import torch
from torch import fx

from tunefarm.frontend.expressions.loops import ConditionalLoop
from tunefarm.frontend.model_source import FIELD
from tunefarm.frontend.pytorch.operators.nodes import value_of
from tunefarm_schemas.bad_input import BadInput


def while_loop(node: fx.Node, importer: Any) -> tuple[Any, ...]:
    """The last state of a loop: its condition and its step are graphs of the state and of captured tensors.

    Raises:
        BadInput: a part of the state is not a tensor.
    """
    condition, body, carried, captured = node.args
    for part in carried:
        if not isinstance(part, fx.Node) or not isinstance(value_of(part), torch.Tensor):
            raise BadInput(FIELD, f"the loop {node.name} carries {part}.", "Carry tensors: torch.tensor(0) for 0.")
    state, fixed = ([importer.env[each] for each in values] for values in (carried, captured))
    goes_on, step = (
        importer._import_branch_subgraph(importer.env[graph], [*state, *fixed], f"loop_{part}")  # noqa: SLF001
        for graph, part in ((condition, "condition"), (body, "step"))
    )
    loop = ConditionalLoop(importer.block_builder, goes_on, step, parts=len(state))
    return tuple(loop.run(state, fixed))
