"""Files that cannot be converted are refused with what is wrong and what to do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import export

from tests.client.stablehlo.equality import imported, of_text
from tunefarm.frontend.stablehlo_model import import_jax_exported, import_stablehlo
from tunefarm_schemas.bad_input import BadInput

pytestmark = pytest.mark.models
X = jnp.ones((4, 8))


def dynamic() -> export.Exported:
    rows, columns = export.symbolic_shape("a, b", constraints=["b >= 4"])
    arguments = (jax.ShapeDtypeStruct((rows, columns), jnp.float32), jax.ShapeDtypeStruct((rows, 3), jnp.float32))
    return export.export(jax.jit(lambda x, y: x[:, :3] + y))(*arguments)


def test_unsupported_operators_are_named_all_at_once() -> None:
    def function(x: Any) -> Any:
        random = jax.lax.rng_uniform(0.0, 1.0, (4, 8))
        return jnp.linalg.svd(x), jax.lax.nextafter(x, x + 1), random + x, jax.lax.top_k(x, 2)

    with pytest.raises(BadInput) as error:
        imported(function, X)
    for name in ("stablehlo.rng at", "chlo.next_after at", "@lapack_sgesdd"):
        assert name in error.value.problem
    assert "4x8xf32" in error.value.problem
    assert "without dropout" in error.value.fix
    assert "outside of the model" in error.value.fix


def test_operators_in_loops_are_named_once() -> None:
    def function(x: Any) -> Any:
        return jax.lax.fori_loop(0, 9, lambda _, y: y + jax.lax.rng_uniform(0.0, 1.0, (4, 8)), x)

    with pytest.raises(BadInput, match=r"^model: 1 node has no conversion to Relax: stablehlo.rng"):
        imported(function, X)


def test_callbacks_and_collectives_are_refused_with_advice() -> None:
    def function(x: Any) -> Any:
        jax.debug.print("{}", x.sum())
        return x * 2

    with pytest.raises(BadInput, match=r"stablehlo.custom_call @.*callback.* without callbacks"):
        imported(function, X)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no public function"),
        ("no module", "does not read it"),
        ("module { func.func @main() -> tensor<2xf32> { return } }", "does not read it"),
        ("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { %0 = foo.bar %x return %0 }", "Dialect `foo'"),
        ("func.func private @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }", "no public"),
        ("func.func @main(%x: tensor<2xcomplex<f32>>) -> () { return }", "The input arg0 is a tensor<2xcomplex<f32>>"),
        ("func.func @main(%x: tensor<*xf32>) -> () { return }", "The input arg0 is a tensor<*xf32>"),
        ("func.func @main(%x: i32) -> () { return }", "The input arg0 is a i32"),
        ("func.func @main(%x: tensor<?x3xf32>) -> () { return }", r"arg0 (?x3xf32)"),
        (
            'func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { %0 = "foo.bar"(%x) : (tensor<2xf32>) -> '
            "tensor<2xf32> return %0 : tensor<2xf32> }",
            "foo.bar at %0 (2xf32)",
        ),
        (
            "func.func @main() -> tensor<4xf32> { %0 = stablehlo.constant dense_resource<__elided__> : tensor<4xf32> "
            "return %0 : tensor<4xf32> }",
            "stablehlo.constant at %cst",
        ),
        (
            "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { %0 = func.call @main(%x) : (tensor<2xf32>) -> "
            "tensor<2xf32> return %0 : tensor<2xf32> }",
            "func.call at",
        ),
    ],
)
def test_damaged_and_foreign_text_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BadInput) as error:
        of_text(text)
    assert problem in error.value.problem
    assert error.value.fix


@pytest.mark.parametrize("damage", [lambda data: data[:100], lambda data: data[:-5], lambda data: data[:8] + b"9999"])
def test_damaged_bytecode_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "model.stablehlo"
    path.write_bytes(damage(export.export(jax.jit(jnp.tanh))(X).mlir_module_serialized))
    with pytest.raises(BadInput, match="does not read it"):
        import_stablehlo(path, {})


@pytest.mark.parametrize("size", [0, 3, 100, 700])
def test_damaged_artifacts_are_refused(size: int) -> None:
    data = bytes(export.export(jax.jit(jnp.tanh))(X).serialize())
    with pytest.raises(BadInput, match=r"jax.export does not read it"):
        import_jax_exported(data[:size], {})


def test_text_of_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    path.write_bytes(b"\xff\xfe module")
    with pytest.raises(BadInput, match="does not read it"):
        import_stablehlo(path, {})


@pytest.mark.parametrize(
    ("shapes", "problem"),
    [
        ({}, r"shapes: Inputs have dimensions of unknown size: x \(\?x\?xf32\), y \(\?x3xf32\)"),
        ({"x": (4, 8)}, r"unknown size: y \(\?x3xf32\)"),
        ({"x": (4, 8), "y": (4, 2)}, "y is .x3xf32, not 4x2"),
        ({"x": (4, 8), "y": (4,)}, "y is .x3xf32, not 4"),
        ({"x": (4, 8), "z": (4, 3)}, "no input z. Its inputs are: x, y"),
        ({"x": (4, 8), "y": (5, 3)}, "Shapes do not follow from these sizes"),
        ({"x": (4, 2), "y": (4, 3)}, "Shapes do not follow from these sizes"),
        ({"x": (-1, 8), "y": (4, 3)}, "x is .*not -1x8"),
    ],
)
def test_missing_and_wrong_sizes_are_refused(shapes: dict[str, tuple[int, ...]], problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        import_jax_exported(bytes(dynamic().serialize()), shapes)


def test_functions_that_grow_without_end_when_inlined_are_refused() -> None:
    layers = "".join(
        f"""
        func.func private @f{level}(%x: tensor<f32>) -> tensor<f32> {{
          %0 = call @f{level + 1}(%x) : (tensor<f32>) -> tensor<f32>
          %1 = call @f{level + 1}(%0) : (tensor<f32>) -> tensor<f32>
          return %1 : tensor<f32>
        }}"""
        for level in range(40)
    )
    last = "func.func private @f40(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"
    main = "func.func @main(%x: tensor<f32>) -> tensor<f32> { %0 = call @f0(%x) : (tensor<f32>) -> tensor<f32> "
    with pytest.raises(BadInput, match="operators with its calls inlined"):
        of_text(f"{main} return %0 : tensor<f32> }} {layers} {last}")
