"""LSTM, GRU and RNN, step after step: Relax has no recurrent operators.

The inputs of all steps are multiplied by their weights at once; a step multiplies its state only. Equations:
onnx.ai/onnx/operators, LSTM-14, GRU-14 and RNN-14.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from tvm import relax
from tvm.ir import GenericConst

from tunefarm.frontend.expressions.along_axis import joined, pieces
from tunefarm.frontend.onnx.operators.constants import constant

MAX_STEPS: Final = 512
_Activation = Callable[[Any], Any]
_ACTIVATIONS: Final[Mapping[str, _Activation]] = MappingProxyType(
    {
        "Sigmoid": relax.op.sigmoid,
        "Tanh": relax.op.tanh,
        "Relu": relax.op.nn.relu,
        "Softsign": lambda x: relax.op.divide(x, relax.op.add(relax.const(1.0, x.ty.dtype), relax.op.abs(x))),
    }
)


@dataclass(frozen=True)
class _Direction:
    """One direction of a layer.

    Attributes:
        builder: TVM's ``BlockBuilder``.
        inputs: of each step in its order: [batch, gates x hidden], multiplied by the weights, biases added.
        recurrence: transposed weights of the state: [hidden, gates x hidden].
        state_bias: [gates x hidden], where it cannot be added to the inputs; else None.
        peepholes: three arrays [hidden] of an LSTM; else None.
        activations: of the gates, in ONNX's order.
        hidden: size of the state.
        clip: bound of what goes into an activation; None for none.
    """

    builder: Any
    inputs: Sequence[Any]
    recurrence: Any
    state_bias: Any
    peepholes: Sequence[Any] | None
    activations: Sequence[_Activation]
    hidden: int
    clip: float | None

    def clipped(self, value: Any) -> Any:
        """``value`` within the bounds of the layer."""
        value = self.builder.emit(value)
        return value if self.clip is None else self.builder.emit(relax.op.clip(value, -self.clip, self.clip))

    def split(self, value: Any, parts: int) -> list[Any]:
        """``value`` cut into the parts of its gates."""
        return pieces(value, parts, 1, self.builder.emit)


def lstm(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """Convert LSTM: the sequence of states, the last state, the last cell."""
    del scope
    if attributes.get("input_forget", 0):
        raise ValueError("LSTM with input_forget has no conversion")
    return _layer(builder, inputs, attributes, gates=4, step=_lstm_step, defaults=("Sigmoid", "Tanh", "Tanh"))


def gru(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """Convert GRU: the sequence of states, and the last state."""
    del scope
    step = _gru_step_after if attributes.get("linear_before_reset", 0) else _gru_step_before
    return _layer(builder, inputs, attributes, gates=3, step=step, defaults=("Sigmoid", "Tanh"))


def rnn(builder: Any, inputs: Any, attributes: Mapping[str, Any], scope: Any) -> Any:
    """Convert RNN: the sequence of states, and the last state."""
    del scope
    return _layer(builder, inputs, attributes, gates=1, step=_rnn_step, defaults=("Tanh",))


_States = tuple[Any, ...]
_Step = Callable[[_Direction, Any, _States], _States]


def _lstm_step(layer: _Direction, x: Any, states: _States) -> _States:
    hidden, cell = states
    gates = layer.builder.emit(relax.op.add(x, relax.op.matmul(hidden, layer.recurrence)))
    i, o, f, c = layer.split(gates, 4)
    sigmoid, candidate, output = layer.activations
    if layer.peepholes is not None:
        of_input, of_output, of_forget = layer.peepholes
        i = relax.op.add(i, relax.op.multiply(of_input, cell))
        f = relax.op.add(f, relax.op.multiply(of_forget, cell))
    kept = relax.op.multiply(sigmoid(layer.clipped(f)), cell)
    cell = layer.builder.emit(
        relax.op.add(kept, relax.op.multiply(sigmoid(layer.clipped(i)), candidate(layer.clipped(c))))
    )
    if layer.peepholes is not None:
        o = relax.op.add(o, relax.op.multiply(of_output, cell))
    return layer.builder.emit(relax.op.multiply(sigmoid(layer.clipped(o)), output(cell))), cell


def _gru_step_after(layer: _Direction, x: Any, states: _States) -> _States:
    """The reset gate acts on the product of state and weights, as in torch and cuDNN."""
    (hidden,) = states
    product = relax.op.matmul(hidden, layer.recurrence)
    product = layer.builder.emit(product if layer.state_bias is None else relax.op.add(product, layer.state_bias))
    of_state, of_input = layer.split(product, 3), layer.split(x, 3)
    sigmoid, tanh = layer.activations
    z = layer.builder.emit(sigmoid(layer.clipped(relax.op.add(of_input[0], of_state[0]))))
    r = sigmoid(layer.clipped(relax.op.add(of_input[1], of_state[1])))
    candidate = tanh(layer.clipped(relax.op.add(of_input[2], relax.op.multiply(r, of_state[2]))))
    return (_mixed(layer, z, candidate, hidden),)


def _gru_step_before(layer: _Direction, x: Any, states: _States) -> _States:
    """The reset gate acts on the state."""
    (hidden,) = states
    size = layer.hidden
    first = relax.op.strided_slice(layer.recurrence, [1], [0], [2 * size])
    last = relax.op.strided_slice(layer.recurrence, [1], [2 * size], [3 * size])
    of_input = layer.split(x, 3)
    z, r = layer.split(layer.builder.emit(relax.op.matmul(hidden, first)), 2)
    sigmoid, tanh = layer.activations
    z = layer.builder.emit(sigmoid(layer.clipped(relax.op.add(of_input[0], z))))
    r = sigmoid(layer.clipped(relax.op.add(of_input[1], r)))
    product = relax.op.matmul(relax.op.multiply(r, hidden), last)
    return (_mixed(layer, z, tanh(layer.clipped(relax.op.add(of_input[2], product))), hidden),)


def _mixed(layer: _Direction, z: Any, candidate: Any, hidden: Any) -> Any:
    candidate = layer.builder.emit(candidate)
    difference = relax.op.subtract(hidden, candidate)
    return layer.builder.emit(relax.op.add(candidate, relax.op.multiply(z, difference)))


def _rnn_step(layer: _Direction, x: Any, states: _States) -> _States:
    (hidden,) = states
    total = layer.clipped(relax.op.add(x, relax.op.matmul(hidden, layer.recurrence)))
    return (layer.builder.emit(layer.activations[0](total)),)


def _layer(
    builder: Any, inputs: Any, attributes: Mapping[str, Any], *, gates: int, step: _Step, defaults: Sequence[str]
) -> Any:
    x, initial = inputs[0], [inputs[5], inputs[6]][: 2 if gates == 4 else 1]
    if attributes.get("layout", 0):
        x = builder.emit(relax.op.permute_dims(x, [1, 0, 2]))
        initial = [None if each is None else builder.emit(relax.op.permute_dims(each, [1, 0, 2])) for each in initial]
    steps, batch, _ = (int(size) for size in x.ty.shape)
    if steps > MAX_STEPS:
        raise ValueError(f"A sequence of {steps} steps is longer than {MAX_STEPS}")
    _refuse_lengths(inputs[4], steps)
    directions, hidden = int(inputs[2].ty.shape[0]), int(inputs[2].ty.shape[2])
    sequences, lasts = [], []
    for index in range(directions):
        backwards = (directions == 2 and index == 1) or attributes.get("direction", b"forward") == b"reverse"
        layer = _direction(builder, x, inputs, attributes, gates, index, defaults)
        state = tuple(_initial(builder, each, index, (batch, hidden), x.ty.dtype) for each in initial)
        outputs = []
        for value in reversed(layer.inputs) if backwards else layer.inputs:
            state = step(layer, value, state)
            outputs.append(state[0])
        sequences.append(outputs[::-1] if backwards else outputs)
        lasts.append(state)
    return _results(builder, sequences, lasts, (steps, batch, hidden), bool(attributes.get("layout", 0)))


def _refuse_lengths(lengths: Any, steps: int) -> None:
    """Lengths that cover the whole sequence change nothing."""
    if lengths is None or (isinstance(lengths, GenericConst) and np.all(lengths.value.numpy() == steps)):
        return
    raise ValueError("Sequences of different lengths have no conversion: pad them, and leave sequence_lens out")


def _direction(
    builder: Any, x: Any, inputs: Any, attributes: Mapping[str, Any], gates: int, index: int, defaults: Sequence[str]
) -> _Direction:
    steps, batch, width = (int(size) for size in x.ty.shape)
    hidden = int(inputs[2].ty.shape[2])
    weights = _transposed(builder, _part(builder, inputs[1], index))
    recurrence = _transposed(builder, _part(builder, inputs[2], index))
    apart = gates == 3 and bool(attributes.get("linear_before_reset", 0))
    bias, state_bias = _biases(builder, inputs[3], index, apart)
    product = relax.op.matmul(relax.op.reshape(x, (steps * batch, width)), weights)
    product = builder.emit(product if bias is None else relax.op.add(product, bias))
    parts = pieces(builder.emit(relax.op.reshape(product, (steps, batch, gates * hidden))), steps, 0, builder.emit)
    flat = [builder.emit(relax.op.reshape(part, (batch, gates * hidden))) for part in parts]
    peepholes = None
    if gates == 4 and inputs[7] is not None:
        peepholes = pieces(_part(builder, inputs[7], index), 3, 0, builder.emit)
    clip = attributes.get("clip")
    activations = _activations(attributes, index, defaults)
    return _Direction(builder, flat, recurrence, state_bias, peepholes, activations, hidden, clip or None)


def _activations(attributes: Mapping[str, Any], index: int, defaults: Sequence[str]) -> list[_Activation]:
    names = [name.decode() for name in attributes.get("activations", ())] or [*defaults, *defaults]
    chosen = names[index * len(defaults) : (index + 1) * len(defaults)]
    unknown = [name for name in chosen if name not in _ACTIVATIONS]
    if unknown:
        raise ValueError(f"The activation {unknown[0]} of a recurrent layer has no conversion")
    return [_ACTIVATIONS[name] for name in chosen]


def _biases(builder: Any, bias: Any, index: int, apart: bool) -> tuple[Any, Any]:
    """The bias of the inputs, and the bias of the state if that cannot be added to the inputs."""
    if bias is None:
        return None, None
    of_input, of_state = pieces(_part(builder, bias, index), 2, 0, builder.emit)
    if apart:
        return of_input, of_state
    return builder.emit(relax.op.add(of_input, of_state)), None


def _initial(builder: Any, state: Any, index: int, shape: tuple[int, int], dtype: Any) -> Any:
    if state is None:
        return constant(np.zeros(shape, str(dtype)))
    return builder.emit(relax.op.reshape(_part(builder, state, index), shape))


def _part(builder: Any, value: Any, index: int) -> Any:
    """The part of a direction: the first axis is removed."""
    shape = [int(size) for size in value.ty.shape]
    if shape[0] > 1:
        value = builder.emit(relax.op.strided_slice(value, [0], [index], [index + 1]))
    return builder.emit(relax.op.reshape(value, shape[1:]))


def _transposed(builder: Any, value: Any) -> Any:
    return builder.emit(relax.op.permute_dims(value, [1, 0]))


def _results(
    builder: Any, sequences: list[list[Any]], lasts: list[_States], shape: tuple[int, int, int], batch_first: bool
) -> Any:
    """[steps, directions, batch, hidden], then [directions, batch, hidden] for each state."""
    (steps, batch, hidden), emit = shape, builder.emit
    whole = [emit(relax.op.reshape(joined(each, 0, emit), (steps, 1, batch, hidden))) for each in sequences]
    y = joined(whole, 1, emit)
    results = [relax.op.permute_dims(y, [2, 0, 1, 3]) if batch_first else y]
    for states in zip(*lasts, strict=True):
        last = emit(relax.op.reshape(joined(states, 0, emit), (len(states), batch, hidden)))
        results.append(relax.op.permute_dims(last, [1, 0, 2]) if batch_first else last)
    return relax.Tuple([builder.normalize(each) for each in results])
