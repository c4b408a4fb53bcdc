"""LSTM, GRU and RNN of torch, step after step, in all layers and directions: Relax has no recurrent operators.

The inputs of all steps are multiplied by their weights at once; a step multiplies its state only. Equations:
docs.pytorch.org, torch.nn.LSTM, torch.nn.GRU and torch.nn.RNN. The decomposition by torch gives more operators, and
tracing it takes seconds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import fx
from tvm import relax

from tunefarm.frontend.expressions.along_axis import joined, pieces
from tunefarm.frontend.pytorch.operators.nodes import value_of

States = tuple[Any, ...]
_Step = Callable[["_RecurrentLayer", Any, States], States]

KEPT: Final = (
    torch.ops.aten.lstm.input,
    torch.ops.aten.gru.input,
    torch.ops.aten.rnn_tanh.input,
    torch.ops.aten.rnn_relu.input,
)
"""What must not be decomposed."""


@dataclass(frozen=True)
class _RecurrentLayer:
    """One direction of a layer.

    Attributes:
        emit: adds an expression to the function.
        inputs: of each step in the order of time: [batch, gates x hidden], multiplied by the weights, biases added.
        recurrence: transposed weights of the state: [hidden, gates x hidden].
        state_bias: [gates x hidden], where it cannot be added to the inputs; else None.
        projection: transposed weights of the result of an LSTM's step; None without.
    """

    emit: Callable[[Any], Any]
    inputs: Sequence[Any]
    recurrence: Any
    state_bias: Any
    projection: Any

    def split(self, value: Any, parts: int) -> list[Any]:
        """``value`` cut into the parts of its gates."""
        return pieces(value, parts, 1, self.emit)


def _lstm_step(layer: _RecurrentLayer, x: Any, states: States) -> States:
    hidden, cell = states
    gates = layer.emit(relax.op.add(layer.emit(relax.op.matmul(hidden, layer.recurrence)), x))
    of_input, of_forget, of_cell, of_output = layer.split(gates, 4)
    kept = relax.op.multiply(relax.op.sigmoid(of_forget), cell)
    cell = layer.emit(relax.op.add(kept, relax.op.multiply(relax.op.sigmoid(of_input), relax.op.tanh(of_cell))))
    hidden = layer.emit(relax.op.multiply(relax.op.sigmoid(of_output), relax.op.tanh(cell)))
    if layer.projection is not None:
        hidden = layer.emit(relax.op.matmul(hidden, layer.projection))
    return hidden, cell


def _gru_step(layer: _RecurrentLayer, x: Any, states: States) -> States:
    (hidden,) = states
    product = layer.emit(relax.op.matmul(hidden, layer.recurrence))
    if layer.state_bias is not None:
        product = layer.emit(relax.op.add(product, layer.state_bias))
    of_state, of_input = layer.split(product, 3), layer.split(x, 3)
    reset = relax.op.sigmoid(relax.op.add(of_input[0], of_state[0]))
    kept = layer.emit(relax.op.sigmoid(relax.op.add(of_input[1], of_state[1])))
    new = layer.emit(relax.op.tanh(relax.op.add(of_input[2], relax.op.multiply(reset, of_state[2]))))
    return (layer.emit(relax.op.add(new, relax.op.multiply(kept, relax.op.subtract(hidden, new)))),)


def _rnn_step(activation: Callable[[Any], Any]) -> _Step:
    def step(layer: _RecurrentLayer, x: Any, states: States) -> States:
        (hidden,) = states
        total = layer.emit(relax.op.add(layer.emit(relax.op.matmul(hidden, layer.recurrence)), x))
        return (layer.emit(activation(total)),)

    return step


def lstm(node: fx.Node, importer: Any) -> Any:
    """The sequence of results, the last results and the last cells."""
    return _layers(node, importer, _lstm_step, node.args[1])


def gru(node: fx.Node, importer: Any) -> Any:
    """The sequence of states, and the last states."""
    return _layers(node, importer, _gru_step, [node.args[1]])


def rnn_tanh(node: fx.Node, importer: Any) -> Any:
    """The same of an RNN with hyperbolic tangents."""
    return _layers(node, importer, _rnn_step(relax.op.tanh), [node.args[1]])


def rnn_relu(node: fx.Node, importer: Any) -> Any:
    """The same of an RNN with ReLU."""
    return _layers(node, importer, _rnn_step(relax.op.nn.relu), [node.args[1]])


def _layers(node: fx.Node, importer: Any, step: _Step, initial: Any) -> Any:
    data, _, weights, has_biases, layers, dropout, is_trained, is_bidirectional, batch_first = node.args
    if is_trained and dropout:
        raise ValueError("its dropout is random; export the module in evaluation mode")
    emit, directions = importer.block_builder.emit, 2 if is_bidirectional else 1
    each = len(weights) // (layers * directions)
    parameters = [importer.env[weight] for weight in weights]
    x = importer.env[data]
    if batch_first:
        x = emit(relax.op.permute_dims(x, [1, 0, 2]))
    lasts: list[States] = []
    for first in range(0, layers * directions, directions):
        sequences = []
        for index in range(first, first + directions):
            own = parameters[index * each : (index + 1) * each]
            direction = _direction(emit, x, own, has_biases=has_biases, is_gru=step is _gru_step)
            state = tuple(_initial(whole, index, importer) for whole in initial)
            outputs, last = _run(direction, step, state, backwards=index > first)
            sequences.append(_sequence(emit, outputs, x))
            lasts.append(last)
        x = joined(sequences, 2, emit)
    if batch_first:
        x = emit(relax.op.permute_dims(x, [1, 0, 2]))
    return (x, *(_stacked(emit, states) for states in zip(*lasts, strict=True)))


def _direction(emit: Any, x: Any, weights: Sequence[Any], *, has_biases: bool, is_gru: bool) -> _RecurrentLayer:
    """``weights`` are those of the inputs, those of the state, both biases and the projection, as far as present."""
    steps, batch, features = (int(extent) for extent in x.ty.shape)
    of_input, recurrence = (emit(relax.op.permute_dims(weight, [1, 0])) for weight in weights[:2])
    biases, rest = (weights[2:4], weights[4:]) if has_biases else ((), weights[2:])
    width = int(of_input.ty.shape[1])
    product = emit(relax.op.matmul(emit(relax.op.reshape(x, (steps * batch, features))), of_input))
    if biases:
        added = biases[0] if is_gru else emit(relax.op.add(*biases))
        product = emit(relax.op.add(product, added))
    parts = pieces(emit(relax.op.reshape(product, (steps, batch, width))), steps, 0, emit)
    return _RecurrentLayer(
        emit=emit,
        inputs=[emit(relax.op.reshape(part, (batch, width))) for part in parts],
        recurrence=recurrence,
        state_bias=biases[1] if biases and is_gru else None,
        projection=emit(relax.op.permute_dims(rest[0], [1, 0])) if rest else None,
    )


def _initial(whole: fx.Node, index: int, importer: Any) -> Any:
    """The state that a direction of a layer starts with: [batch, hidden]."""
    _, *shape = value_of(whole).shape
    if whole.target is torch.ops.aten.full.default:
        dtype = str(value_of(whole).dtype).removeprefix("torch.")
        if dtype in {"float32", "float64", "float16"}:  # as a constant it is folded with the weights
            return relax.const(np.full(shape, whole.args[1], dtype))
    emit = importer.block_builder.emit
    part = emit(relax.op.strided_slice(importer.env[whole], [0], [index], [index + 1]))
    return emit(relax.op.reshape(part, shape))


def _run(layer: _RecurrentLayer, step: _Step, state: States, *, backwards: bool) -> tuple[list[Any], States]:
    """The results in the order of time, and the last states."""
    outputs = []
    for x in reversed(layer.inputs) if backwards else layer.inputs:
        state = step(layer, x, state)
        outputs.append(state[0])
    return outputs[::-1] if backwards else outputs, state


def _sequence(emit: Any, values: Sequence[Any], x: Any) -> Any:
    """[steps, batch, hidden]."""
    steps, batch, _ = (int(extent) for extent in x.ty.shape)
    return emit(relax.op.reshape(joined(values, 0, emit), (steps, batch, int(values[0].ty.shape[1]))))


def _stacked(emit: Any, states: Sequence[Any]) -> Any:
    """[layers x directions, batch, hidden]."""
    batch, width = (int(extent) for extent in states[0].ty.shape)
    return emit(relax.op.reshape(joined(states, 0, emit), (len(states), batch, width)))
