"""What a function moves at least, and the type that it computes with."""

from typing import Any

import pytest
import tvm
from tvm import te, topi

from tests.workers import workloads
from tunefarm_schemas.roofline import Work
from tunefarm_search.tvm.moved_data import work_of
from tunefarm_search.tvm.workload import workload_of


def work(*tensors: Any) -> Work | None:
    return work_of(tvm.IRModule({"main": te.create_prim_func(list(tensors))}))


def tensor(*shape: int, dtype: str = "float32") -> Any:
    return te.placeholder(shape, name="A", dtype=dtype)


def test_each_element_of_arguments_and_results_counts_once() -> None:
    assert work_of(workloads.matmul(64)) == Work(moved_bytes=3 * 64 * 64 * 4, dtype="float32")
    assert workload_of(workloads.matmul(64)).work == Work(moved_bytes=3 * 64 * 64 * 4, dtype="float32")


def test_only_the_selected_part_of_an_argument_counts() -> None:
    source = tensor(300, 300)
    assert work(source, topi.strided_slice(source, (0, 0), (10, 20))) == Work(moved_bytes=2 * 200 * 4, dtype="float32")


def test_elements_that_data_select_do_not_count() -> None:
    table, rows = tensor(1000, 16), te.placeholder((5,), name="I", dtype="int64")
    lookup = te.compute((5, 16), lambda i, j: table[rows[i], j], name="B")
    assert work(table, rows, lookup) == Work(moved_bytes=16 * 4 + 5 * 8 + 5 * 16 * 4, dtype="float32")


def test_reshaped_and_transposed_arguments_count_whole() -> None:
    source = tensor(1, 3, 8, 8)
    result = topi.nn.relu(topi.transpose(topi.reshape(source, (3, 64))))
    assert work(source, result) == Work(moved_bytes=2 * 192 * 4, dtype="float32")


def test_strides_leave_elements_out() -> None:
    image, weight = tensor(1, 8, 16, 16), te.placeholder((8, 8, 1, 1), name="W")
    expected = 4 * (8 * 8 * 8 + 64 + 8 * 8 * 8)
    assert work(image, weight, topi.nn.conv2d(image, weight, 2, 0, 1)) == Work(moved_bytes=expected, dtype="float32")


def test_padding_is_not_moved() -> None:
    image, weight = tensor(1, 2, 8, 8), te.placeholder((4, 2, 3, 3), name="W")
    expected = 4 * (128 + 72 + 4 * 64)
    assert work(image, weight, topi.nn.conv2d(image, weight, 1, 1, 1)) == Work(moved_bytes=expected, dtype="float32")


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8"])
def test_work_names_the_type(dtype: str) -> None:
    source = tensor(8, dtype=dtype)
    found = work(source, topi.add(source, source))
    assert found is not None
    assert found.dtype == dtype


def test_work_of_several_types_names_none() -> None:
    source = tensor(8, dtype="float16")
    found = work(source, topi.cast(source, "float32"))
    assert found == Work(moved_bytes=8 * 2 + 8 * 4, dtype="")


def test_quotients_by_zero_are_harmless() -> None:
    source = tensor(8)
    found = work(source, te.compute((8, 8), lambda i, j: source[i // j], name="B"))
    assert found is not None
    assert found.moved_bytes <= (8 + 64) * 4


def test_large_arguments_count_whole() -> None:
    source = tensor(3000, 3000)
    assert work(source, topi.nn.relu(source)) == Work(moved_bytes=2 * 9_000_000 * 4, dtype="float32")
