"""Matrix products and convolutions give what JAX gives."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.client.stablehlo.equality import assert_close, assert_equals_jax, imported, of_text, runner
from tunefarm_schemas.bad_input import BadInput

pytestmark = pytest.mark.models


def normal(*shape: int) -> Any:
    return jnp.asarray(np.random.default_rng(len(shape)).normal(size=shape), jnp.float32)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", ((3, 5), (5, 4))),
        ("ij,kj->ik", ((3, 5), (4, 5))),
        ("ji,jk->ik", ((5, 3), (5, 4))),
        ("i,i->", ((5,), (5,))),
        ("ij,j->i", ((3, 5), (5,))),
        ("i,ij->j", ((3,), (3, 5))),
        ("i,j->ij", ((3,), (5,))),
        ("ij,ij->i", ((3, 5), (3, 5))),
        ("ij,ij->", ((3, 5), (3, 5))),
        ("abc,cd->abd", ((2, 3, 4), (4, 5))),
        ("bij,bjk->bik", ((2, 3, 4), (2, 4, 5))),
        ("bhqd,bkhd->bhqk", ((2, 3, 4, 5), (2, 6, 3, 5))),
        ("bhqk,bkhd->bqhd", ((2, 3, 4, 6), (2, 6, 3, 5))),
        ("bsw,whd->bshd", ((2, 3, 4), (4, 2, 5))),
        ("bshd,hdw->bsw", ((2, 3, 2, 5), (2, 5, 4))),
        ("abcd,dcae->abe", ((2, 3, 4, 5), (5, 4, 2, 3))),
        ("ab,cb->ca", ((2, 3), (4, 3))),
    ],
)
def test_dot_general_equals_jax(equation: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    assert_equals_jax(lambda a, b: jnp.einsum(equation, a, b), *(normal(*shape) for shape in shapes))


@pytest.mark.parametrize(("given", "summed"), [("int8", "int32"), ("float16", "float32"), ("bfloat16", "float32")])
def test_dot_general_sums_in_the_preferred_type(given: str, summed: str) -> None:
    a, b = ((normal(6, 6) * 10).astype(given) for _ in range(2))
    assert_equals_jax(lambda a, b: jnp.matmul(a, b, preferred_element_type=summed), a, b)


def test_product_of_booleans_equals_jax() -> None:
    assert_equals_jax(jnp.matmul, normal(3, 5) > 1, normal(5, 4) > 1)


@pytest.mark.parametrize("padding", ["SAME", "VALID", ((2, 0), (1, 3))], ids=str)
@pytest.mark.parametrize(
    ("strides", "of_input", "of_kernel"),
    [((1, 1), (1, 1), (1, 1)), ((2, 3), (1, 1), (1, 1)), ((1, 1), (1, 1), (2, 1)), ((1, 2), (2, 3), (1, 1))],
    ids=["plain", "strided", "dilated", "transposed"],
)
def test_convolution_equals_jax(padding: Any, strides: Any, of_input: Any, of_kernel: Any) -> None:
    if isinstance(padding, str) and of_input != (1, 1):
        pytest.skip("JAX pads dilated inputs by numbers only")
    kernel = normal(3, 3, 4, 6)

    def function(x: Any) -> Any:
        return lax.conv_general_dilated(
            x, kernel, strides, padding, of_input, of_kernel, dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    assert_equals_jax(function, normal(2, 9, 8, 4))


def test_negative_padding_cuts_the_input() -> None:
    kernel, numbers = normal(3, 3, 4, 6), ("NHWC", "HWIO", "NHWC")

    def cut(x: Any) -> Any:
        return lax.conv_general_dilated(x, kernel, (2, 3), ((-1, 2), (0, -2)), dimension_numbers=numbers)

    def reference(x: Any) -> Any:  # XLA reads outside of the input where a strided convolution has negative padding
        padded = lax.pad(x, 0.0, ((0, 0, 0), (-1, 2, 0), (0, -2, 0), (0, 0, 0)))
        return lax.conv_general_dilated(padded, kernel, (2, 3), "VALID", dimension_numbers=numbers)

    x = normal(2, 9, 8, 4)
    assert_close(runner(imported(cut, x))(x), reference(x), 1e-5)


@pytest.mark.parametrize(
    "layouts",
    [("NCHW", "OIHW", "NCHW"), ("NHWC", "OIHW", "NCHW"), ("HWNC", "OHWI", "NHWC"), ("CHWN", "IHWO", "CHWN")],
    ids="-".join,
)
def test_convolution_takes_any_order_of_dimensions(layouts: tuple[str, str, str]) -> None:
    sizes = {"N": 2, "H": 6, "W": 5, "C": 4}
    kernel_sizes = {"O": 3, "I": 4, "H": 3, "W": 2}
    kernel = normal(*(kernel_sizes[each] for each in layouts[1]))
    x = normal(*(sizes[each] for each in layouts[0]))
    assert_equals_jax(lambda x: lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=layouts), x)


@pytest.mark.parametrize(("groups", "channels"), [(2, 6), (4, 4), (4, 8)])
def test_grouped_and_depthwise_convolutions_equal_jax(groups: int, channels: int) -> None:
    kernel = normal(3, 3, 4 // groups, channels)

    def function(x: Any) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=numbers, feature_group_count=groups
        )

    assert_equals_jax(function, normal(1, 5, 5, 4))


def test_convolutions_of_other_ranks_equal_jax() -> None:
    line, volume = normal(3, 4, 6), normal(2, 3, 3, 2, 4)

    def function(x: Any, y: Any) -> Any:
        return (
            lax.conv_general_dilated(x, line, (2,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")),
            lax.conv_general_dilated(y, volume, (1, 2, 1), "VALID", dimension_numbers=("NDHWC", "DHWIO", "NDHWC")),
        )

    assert_equals_jax(function, normal(2, 9, 4), normal(1, 4, 5, 5, 2))


@pytest.mark.parametrize("transpose_kernel", [False, True])
def test_transposed_convolution_equals_jax(transpose_kernel: bool) -> None:
    kernel = normal(3, 3, 4, 4)
    assert_equals_jax(
        lambda x: lax.conv_transpose(x, kernel, (2, 2), "SAME", transpose_kernel=transpose_kernel), normal(1, 4, 5, 4)
    )


def test_convolution_without_a_result_is_refused() -> None:
    with pytest.raises(BadInput, match="the kernel is larger than the padded input"):
        imported(lambda x, k: lax.conv(x, k, (1, 1), "VALID"), normal(1, 2, 3, 3), normal(2, 2, 5, 5))


def test_batch_groups_are_refused() -> None:
    def gradient(x: Any, kernel: Any) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")

        def loss(kernel: Any) -> Any:
            return lax.conv_general_dilated(
                x, kernel, (1, 1), "SAME", dimension_numbers=numbers, feature_group_count=4
            ).sum()

        return jax.grad(loss)(kernel)

    with pytest.raises(Exception, match=r"stablehlo.convolution at .*[Gg]roups of batches"):
        imported(gradient, normal(2, 5, 5, 4), normal(3, 3, 1, 4))


@pytest.mark.parametrize(
    ("left", "right", "shape"), [((3, 5), (5, 4), (3, 4)), ((5,), (5, 4), (4,)), ((3, 5), (5,), (3,)), ((5,), (5,), ())]
)
def test_dot_equals_jax(left: tuple[int, ...], right: tuple[int, ...], shape: tuple[int, ...]) -> None:
    one, other, product = ("x".join([*map(str, each), "f32"]) for each in (left, right, shape))
    model = of_text(f"""
      func.func public @main(%x: tensor<{one}>, %y: tensor<{other}>) -> tensor<{product}> {{
        %z = "stablehlo.dot"(%x, %y) : (tensor<{one}>, tensor<{other}>) -> tensor<{product}>
        return %z : tensor<{product}>
      }}""")
    x, y = normal(*left), normal(*right)
    assert_close(runner(model)(x, y), jnp.dot(x, y), 1e-5)


@pytest.mark.parametrize(("dtype", "name", "tolerance"), [("float32", "f32", 1e-5), ("float16", "f16", 2e-3)])
def test_norms_of_batches_equal_jax(dtype: str, name: str, tolerance: float) -> None:
    model = of_text(f"""
      func.func public @main(%x: tensor<2x3x40x{name}>, %s: tensor<3x{name}>, %o: tensor<3x{name}>)
          -> (tensor<2x3x40x{name}>, tensor<3x{name}>, tensor<3x{name}>) {{
        %z:3 = "stablehlo.batch_norm_training"(%x, %s, %o) {{epsilon = 0.001 : f32, feature_index = 1 : i64}}
          : (tensor<2x3x40x{name}>, tensor<3x{name}>, tensor<3x{name}>)
          -> (tensor<2x3x40x{name}>, tensor<3x{name}>, tensor<3x{name}>)
        return %z#0, %z#1, %z#2 : tensor<2x3x40x{name}>, tensor<3x{name}>, tensor<3x{name}>
      }}""")
    x, scale, offset = (each.astype(dtype) for each in (normal(2, 3, 40) + 9, normal(3), normal(3)))
    wide = x.astype("float32")
    mean, variance = (reduce(wide, (0, 2), keepdims=True) for reduce in (jnp.mean, jnp.var))
    columns = scale.astype("float32")[:, None], offset.astype("float32")[:, None]
    normal_x = (wide - mean) * lax.rsqrt(variance + 0.001) * columns[0] + columns[1]
    expected = [each.astype(dtype) for each in (normal_x, mean.reshape(3), variance.reshape(3))]
    assert_close(runner(model)(x, scale, offset), expected, tolerance)


def test_reversed_windows_and_batch_norms_are_converted() -> None:
    model = of_text("""
      func.func public @main(%x: tensor<1x2x5x5xf32>, %k: tensor<3x2x3x3xf32>, %s: tensor<3xf32>)
          -> tensor<1x3x3x3xf32> {
        %y = stablehlo.convolution(%x, %k) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
          window = {reverse = [1, 0]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
          : (tensor<1x2x5x5xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x3x3xf32>
        %z = "stablehlo.batch_norm_inference"(%y, %s, %s, %s, %s) {epsilon = 0.001 : f32, feature_index = 1 : i64}
          : (tensor<1x3x3x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<1x3x3x3xf32>
        return %z : tensor<1x3x3x3xf32>
      }""")
    x, kernel, s = normal(1, 2, 5, 5), normal(3, 2, 3, 3), jnp.asarray([0.5, 1.0, 2.0])
    y = lax.conv(x, kernel[:, :, ::-1], (1, 1), "VALID")
    column = s[:, None, None]
    assert_close(runner(model)(x, kernel, s), (y - column) * lax.rsqrt(column + 0.001) * column + column, 1e-5)
