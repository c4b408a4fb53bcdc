"""Images are resized in one direction after the other, with the results of TVM's own function."""

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.search.relax.models import one_entry, random_array
from tests.search.relax.test_preparation import result_of
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import host_target

SHAPES = {"NCHW": (2, 3, 9, 14), "NHWC": (2, 9, 14, 3)}


def resizing(shape: tuple[int, ...], **options: Any) -> Any:
    return one_entry(lambda _builder, given, _weights: relax.op.image.resize2d(given[0], **options), [shape], [])


def prepared(module: Any) -> PreparedModel:
    return prepare(module, {"main": ()}, host_target(1))


def by_tvm(module: Any, given: Any) -> Any:
    library = tvm.compile(module, target="llvm")
    return relax.VirtualMachine(library, tvm.cpu())["main"](tvm.runtime.tensor(given)).numpy()


@pytest.mark.parametrize(
    ("place", "size"),
    [
        ("half_pixel", (18, 28)),
        ("half_pixel", (27, 6)),
        ("half_pixel", (9, 14)),
        ("align_corners", (9, 20)),
        ("asymmetric", (4, 31)),
        ("pytorch_half_pixel", (5, 6)),
    ],
)
@pytest.mark.parametrize("method", ["linear", "cubic"])
@pytest.mark.quick_cases(3)
def test_results_are_those_of_one_pass(method: str, place: str, size: tuple[int, int]) -> None:
    layout = "NHWC" if place == "asymmetric" else "NCHW"
    given = random_array(*SHAPES[layout])
    module = resizing(
        SHAPES[layout], size=size, layout=layout, method=method, coordinate_transformation_mode=place, cubic_alpha=-0.6
    )
    expected = by_tvm(module, given)
    np.testing.assert_allclose(result_of(prepared(module), (given,)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "options", "blocks"),
    [
        ((1, 3, 9, 14), {"size": (18, 28)}, 2),
        ((1, 3, 9, 14), {"size": (9, 28)}, 1),
        ((1, 9, 14, 21), {"size": (18, 28), "layout": "NHWC"}, 2),
        ((1, 9, 14, 16), {"size": (18, 28), "layout": "NHWC"}, 1),
        ((1, 9, 14, 16), {"size": (18, 28), "layout": "NHWC", "method": "cubic"}, 2),
        ((1, 3, 9, 14), {"size": (18, 28), "method": "nearest_neighbor"}, 1),
    ],
)
def test_passes_are_two_where_vectors_gain(shape: tuple[int, ...], options: dict[str, Any], blocks: int) -> None:
    [task] = model_tasks(prepared(resizing(shape, **options)))
    script = load_json(task.workload.module_json).script()
    assert script.count("T.sblock(") == 1 + blocks


@pytest.mark.parametrize(("layout", "shape"), [("NCHW", (2, 3, 9, 14)), ("NHWC", (2, 9, 14, 16))])
def test_one_pixel_is_the_corner(layout: str, shape: tuple[int, ...]) -> None:
    given, place = random_array(*shape), "align_corners"
    module = resizing(shape, size=(1, 1), method="linear", coordinate_transformation_mode=place, layout=layout)
    corner = given[:, :, :1, :1] if layout == "NCHW" else given[:, :1, :1]
    np.testing.assert_array_equal(result_of(prepared(module), (given,)), corner)


def test_fewer_rows_are_computed_first() -> None:
    [task] = model_tasks(prepared(resizing((1, 3, 100, 14), size=(10, 28))))
    assert "(T.int64(1), T.int64(3), T.int64(10), T.int64(14))" in load_json(task.workload.module_json).script()
