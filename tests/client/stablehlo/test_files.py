"""Files of StableHLO: text, bytecode and artifacts of jax.export, dynamic inputs, weights, several functions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import export

from tests.client.stablehlo import jax_models
from tests.client.stablehlo.equality import assert_close, imported, of_text, runner
from tunefarm.frontend.child import ENTRY
from tunefarm.frontend.model_import import ImportedModel, import_model
from tunefarm.frontend.model_source import parse_model_source
from tunefarm.frontend.stablehlo_model import import_jax_exported, import_stablehlo
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_search.tvm.loading import LOAD_TVM

pytestmark = pytest.mark.models
X = jnp.asarray(np.random.default_rng(0).normal(size=(4, 64)), jnp.float32)


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer.start((LOAD_TVM, ENTRY.partition(":")[0])) as server:
        yield server


def exported(*examples: Any) -> export.Exported:
    return export.export(jax.jit(jax_models.mlp()))(*examples)


@pytest.mark.parametrize("suffix", [".mlir", ".stablehlo", ".mlirbc", ".jax"])
def test_each_form_of_file_is_read_in_a_confined_child(fork_server: ForkServer, tmp_path: Path, suffix: str) -> None:
    program = exported(X)
    contents = {
        ".mlir": jax.jit(jax_models.mlp()).lower(X).as_text().encode(),
        ".stablehlo": program.mlir_module_serialized,
        ".mlirbc": program.mlir_module_serialized,
        ".jax": bytes(program.serialize()),
    }
    path = tmp_path / f"model{suffix}"
    path.write_bytes(contents[suffix])
    model = import_model(fork_server, parse_model_source(str(path)))
    assert isinstance(model, ImportedModel)
    assert [each.shape for each in model.weights["main"]] == [(64, 128), (128, 10)]
    assert model.framework.startswith("jaxlib ")


def test_all_files_of_a_model_give_the_same(tmp_path: Path) -> None:
    program, path = exported(X), tmp_path / "model.mlir"
    path.write_text(jax.jit(jax_models.mlp()).lower(X).as_text())
    for model in (import_stablehlo(path, {}), import_jax_exported(bytes(program.serialize()), {})):
        assert_close(runner(model)(X), jax_models.mlp()(X), 1e-5)


def test_bytecode_without_versions_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.stablehlo"
    with path.open("wb") as file:
        jax.jit(jax_models.mlp()).lower(X).compiler_ir("stablehlo").operation.write_bytecode(file)
    assert_close(runner(import_stablehlo(path, {}))(X), jax_models.mlp()(X), 1e-5)


def test_dynamic_inputs_take_sizes_by_name() -> None:
    (batch,) = export.symbolic_shape("batch")
    program = exported(jax.ShapeDtypeStruct((batch, 64), jnp.float32))
    for size in (1, 7):
        x = jnp.asarray(np.random.default_rng(size).normal(size=(size, 64)), jnp.float32)
        model = import_jax_exported(bytes(program.serialize()), {"x": (size, 64)})
        assert [each.name for each in model.module["main"].params] == ["x", "weight_0", "weight_1"]
        assert_close(runner(model)(x), jax_models.mlp()(x), 1e-5)


def test_large_constants_are_weights_and_small_ones_stay() -> None:
    large, small, zeros = np.arange(1024, dtype=np.float32), np.arange(8, dtype=np.float32), np.zeros(4096, np.float32)

    def function(x: Any) -> Any:
        return (x.reshape(-1)[:1024] + large).sum() + (x.reshape(-1)[:8] * small).sum() + (zeros + x[0, 0]).sum()

    model = imported(function, jnp.ones((32, 32)))
    assert len(model.weights["main"]) == 1
    np.testing.assert_array_equal(model.weights["main"][0], large)
    main = model.module["main"]
    assert main.attrs["num_input"] == 1
    assert [each.name for each in main.params] == ["x", "weight_0"]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "bool", "int64"])
def test_weights_of_any_type_arrive_unchanged(dtype: str) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    weights = np.random.default_rng(0).integers(-3, 4, 5000).astype(kind)
    words = {"bfloat16": "bf16", "float16": "f16", "int8": "i8", "bool": "i1", "int64": "i64"}
    kept = of_text(f"""
      func.func public @main() -> tensor<5000x{words[dtype]}> {{
        %0 = stablehlo.constant dense<"0x{weights.tobytes().hex()}"> : tensor<5000x{words[dtype]}>
        return %0 : tensor<5000x{words[dtype]}>
      }}""").weights["main"]
    np.testing.assert_array_equal(kept[0], weights)
    assert kept[0].dtype == weights.dtype


@pytest.mark.parametrize(
    ("printed", "expected"),
    [("1.5", [1.5, 1.5]), ("[0x7F80, -2.0]", [np.inf, -2.0]), ('"0x803F0040"', [1.0, 2.0]), ('"0x803F"', [1.0, 1.0])],
)
def test_small_bfloat16_constants_are_read(printed: str, expected: list[float]) -> None:
    model = of_text(f"""
      func.func @main(%x: tensor<2xbf16>) -> tensor<2xbf16> {{
        %0 = stablehlo.constant dense<{printed}> : tensor<2xbf16>
        %1 = stablehlo.add %x, %0 : tensor<2xbf16>
        return %1 : tensor<2xbf16>
      }}""")
    assert runner(model)(np.zeros(2, ml_dtypes.bfloat16))[0].tolist() == expected


def test_each_public_function_is_an_entry() -> None:
    model = of_text("""
      module {
        func.func public @twice(%x: tensor<3xf32>) -> tensor<3xf32> {
          %0 = call @inner(%x, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
          return %0 : tensor<3xf32>
        }
        func.func public @pair(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
          %0 = stablehlo.negate %x : tensor<3xf32>
          return %0, %x : tensor<3xf32>, tensor<3xf32>
        }
        func.func private @inner(%a: tensor<3xf32>, %b: tensor<3xf32>) -> tensor<3xf32> {
          %0 = stablehlo.add %a, %b : tensor<3xf32>
          return %0 : tensor<3xf32>
        }
      }""")
    assert sorted(model.weights) == ["pair", "twice"]
    x = np.asarray([1, 2, 3], np.float32)
    assert runner(model, "twice")(x)[0].tolist() == [2, 4, 6]
    assert [each.tolist() for each in runner(model, "pair")(x)] == [[-1, -2, -3], [1, 2, 3]]


def test_weights_in_loops_and_branches_are_parameters_of_the_entry() -> None:
    weight = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32) * 0.1

    def function(n: Any, x: Any) -> Any:
        return jax.lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, jnp.tanh(s[1] @ weight)), (0, x))

    def step(i: Any, x: Any) -> Any:
        return jax.lax.cond(x[0, i % 64] > 0, lambda y: y @ weight, lambda y: y - weight[0], x)

    both = lambda n, x: (function(n, x), jax.lax.fori_loop(0, 5000, step, x))  # noqa: E731
    model = imported(both, jnp.int32(3), X)
    assert model.weights["main"][0].shape == (64, 64)
    assert_close(runner(model)(np.int32(3), X), jax.jit(both)(3, X), 1e-4)


def test_parameters_that_are_inputs_are_noted() -> None:
    def function(params: Any, x: Any) -> Any:
        return x @ params["dense"]["kernel"]

    model = imported(function, {"dense": {"kernel": jnp.ones((64, 64))}}, X)
    assert [each.name for each in model.module["main"].params] == ["params_dense_kernel", "x"]
    assert "params_dense_kernel of main are inputs" in model.notes[0]


def test_portable_operators_of_chlo_keep_their_converters() -> None:
    def function(x: Any) -> Any:
        return jax.lax.erf(x), jnp.sinh(x), jax.lax.top_k(x, 3)

    program = export.export(jax.jit(function))(X)
    model = import_jax_exported(bytes(program.serialize()), {})
    script = model.module.script()
    assert "R.erf" in script
    assert "R.topk" in script
    assert_close(runner(model)(X), function(X), 1e-5)
