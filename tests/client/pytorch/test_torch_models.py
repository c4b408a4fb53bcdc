"""Models of torch give in TVM what they give in torch."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop
from tvm import relax

from benchmarks.models.zoo import TINY_ZOO
from tests.client.pytorch.running import Of, by_torch, by_tvm, imported, require_as_torch, require_equal
from tunefarm.frontend.relax_model import RelaxModel
from tunefarm_schemas.bad_input import BadInput

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")]


@pytest.mark.parametrize("name", TINY_ZOO)
def test_model_of_the_benchmark_computes_what_torch_computes(name: str) -> None:
    module, inputs = TINY_ZOO[name].build()

    require_as_torch(module, inputs, TINY_ZOO[name].tolerance)


def test_parameters_have_the_names_of_torch_and_unused_ones_are_left_out() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).eval()

    model = imported(module, (torch.randn(2, 4),))

    function = model.module["main"]
    assert function.attrs["num_input"] == 1
    assert {parameter.name for parameter in function.params[1:]} == {
        "0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var",
    }  # fmt: skip
    assert model.framework == "torch 2.13.0"


def test_tied_weights_are_one_array() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(5, 4)
            self.logits = nn.Linear(4, 5, bias=False)
            self.logits.weight = nn.Parameter(self.words.weight.detach())

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.logits(self.words(ids))

    model = imported(Tied().eval(), (torch.tensor([1, 2]),))

    first, second = model.weights["main"]
    assert first is second


def test_program_exported_in_training_mode_gives_new_statistics() -> None:
    module, x = nn.BatchNorm2d(4).train(), torch.randn(2, 4, 5, 5)

    model = imported(torch.export.export(module, (x,)), None)

    reference = model.references[0]
    require_equal(by_tvm(model, tuple(map(torch.from_numpy, reference.inputs))), reference.outputs)


def test_dropout_is_off_and_said_so_where_a_module_was_in_training_mode() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.9))
    inputs = (torch.randn(2, 4),)

    model = imported(module, inputs)

    assert "training mode" in model.notes[0]
    require_equal(by_tvm(model, inputs), by_torch(module.eval(), inputs))


def test_inputs_may_be_keywords_and_outputs_nested() -> None:
    class Nested(nn.Module):
        def forward(self, x: torch.Tensor, *, mask: torch.Tensor) -> dict[str, Any]:
            return {"masked": x * mask, "nothing": None, "more": (x + 1, [mask])}

    require_as_torch(Nested().eval(), {"x": torch.randn(2, 3), "mask": torch.ones(2, 3)})


def test_positions_that_count_from_the_end_are_read_and_written_there() -> None:
    at = torch.tensor([1, -1, 0, 2])

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            x[:, -1],
            x[:, at],
            x[torch.tensor([0, -1]), :, torch.tensor([2, -3])],
            x[:, at, at],
            x.index_copy(2, at[3:], torch.ones(2, 6, 1)),
            torch.ops.aten.index_put(x, [None, at[1:2]], torch.ones(2, 1, 8)),
            torch.ops.aten.index_put(x, [None, at[:2]], torch.ones(1, 8)),
            torch.ops.aten.index_put(x, [x[..., 0] > 0], torch.tensor(3.0)),
            torch.ops.aten.index_put(x, [torch.tensor([0, 1]), torch.tensor([2, -2])], torch.ones(8), True),
        )

    require_as_torch(Of(function), (torch.randn(2, 6, 8),))


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float16, 5e-3), (torch.float64, 1e-12)], ids=["float16", "float64"]
)
def test_other_float_types_keep_their_type(dtype: torch.dtype, tolerance: float) -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3, padding=1)
            self.norm = nn.BatchNorm2d(8)
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            tokens = self.norm(self.conv(x)).relu().flatten(2).transpose(1, 2)
            return self.attention(tokens, tokens, tokens)[0]

    require_as_torch(Mixed().eval().to(dtype), (torch.randn(1, 3, 4, 4, dtype=dtype),), tolerance)


def test_transposed_convolution_of_halves_is_summed_in_float32() -> None:
    module = nn.ConvTranspose2d(4, 3, 2, stride=2).eval().half()

    require_as_torch(module, (torch.randn(1, 4, 3, 3).half(),), 5e-3)


def test_bfloat16_weights_keep_their_bits() -> None:
    module = nn.Linear(4, 3).eval().to(torch.bfloat16)

    model = imported(module, (torch.randn(2, 4, dtype=torch.bfloat16),))

    weight = next(array for array in model.weights["main"] if array.ndim > 1)
    np.testing.assert_array_equal(weight.astype(np.float32), module.weight.detach().float().numpy())


def test_conditions_choose_a_branch_at_run_time() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a - 1, (x,))

    module = Of(function)
    model = imported(module, (torch.ones(2, 3),))

    assert entries_of(model) == ["main"]
    for inputs in ((torch.ones(2, 3),), (-torch.ones(2, 3),)):
        require_equal(by_tvm(model, inputs), by_torch(module, inputs))


def entries_of(model: RelaxModel) -> list[str]:
    functions = ((name.name_hint, function) for name, function in model.module.functions_items())
    return [name for name, function in functions if "global_symbol" in (function.attrs or {})]


class Repeating(nn.Module):
    """Two loops: one over a counter and data, which reads weights, and one over one tensor alone."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        def goes_on(number: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
            return (number < 9) & (data.abs().sum() < 100)

        def step(number: torch.Tensor, data: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return number + 1, self.linear(data) + 1.5 * data

        number, data = while_loop(goes_on, step, (torch.zeros((), dtype=torch.int64), x))
        (doubled,) = while_loop(lambda a: a.abs().sum() < 50, lambda a: (a * 2,), (x,))
        return number, data, doubled


def test_loops_run_as_often_as_their_inputs_say() -> None:
    torch.manual_seed(0)
    module, x = Repeating().eval(), torch.randn(2, 4)
    model = imported(module, (x,))

    assert entries_of(model) == ["main"]
    steps = set()
    for factor in (1e-3, 1.0, 8.0, 1e3):
        inputs = (x * factor,)
        expected = by_torch(module, inputs)
        steps.add(int(expected[0]))
        require_equal(by_tvm(model, inputs), expected)
    assert len(steps) > 2, "the loop runs as often for all inputs"


def test_loop_that_carries_a_number_is_refused() -> None:
    class Counting(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return while_loop(lambda n, a: a.sum() + n < 9, lambda n, a: (n + 1, a + 1), (0, x))

    with pytest.raises(BadInput, match="carries 0") as refused:
        imported(Counting(), (torch.ones(2),))
    assert "torch.tensor" in refused.value.fix


def test_converters_of_the_user_serve_operators_of_libraries() -> None:
    @torch.library.custom_op("tunefarmtest::add", mutates_args=())
    def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + 2 * y

    add.register_fake(lambda x, y: torch.empty_like(x))

    def convert(node: Any, importer: Any) -> Any:
        first, second = (importer.env[each] for each in node.args)
        doubled = importer.block_builder.emit(relax.op.multiply(second, relax.const(2.0)))
        return importer.block_builder.emit(relax.op.add(first, doubled))

    require_as_torch(
        Of(lambda x, y: add(x, y) + y),
        (torch.randn(2, 3), torch.randn(2, 3)),
        converters={"tunefarmtest::add": convert},
    )


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(
    "module",
    [
        nn.LSTM(6, 8, 2),
        nn.LSTM(6, 8, bidirectional=True, bias=False),
        nn.LSTM(6, 8, 2, bidirectional=True, proj_size=3),
        nn.GRU(6, 8, 2, bidirectional=True),
        nn.GRU(6, 8, bias=False),
        nn.RNN(6, 8, 2),
        nn.RNN(6, 8, nonlinearity="relu", bidirectional=True),
    ],
    ids=["lstm", "lstm-both-ways", "lstm-projected", "gru", "gru-without-bias", "rnn", "rnn-relu"],
)
def test_recurrent_layers_give_their_sequence_and_last_states(module: Any, batch_first: bool) -> None:
    module.batch_first = batch_first
    inputs = (torch.randn(2, 5, 6),)

    require_as_torch(module.eval(), inputs)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_start_with_a_given_state_and_without_a_batch(kind: Any) -> None:
    class Continued(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = kind(6, 8)

        def forward(self, x: torch.Tensor, *states: torch.Tensor) -> Any:
            return self.layer(x, states if len(states) == 2 else states[0])

    states = [torch.randn(1, 8) for _ in range(2 if kind is nn.LSTM else 1)]

    require_as_torch(Continued().eval(), (torch.randn(1, 6), *states))
