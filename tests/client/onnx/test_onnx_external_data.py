"""Weights beside an ONNX model are read from its folder, and from nowhere else."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.client.onnx.graphs import assert_equal, constants, model_of, node, normal, saved
from tunefarm.frontend.onnx.reading import read_onnx
from tunefarm_schemas.bad_input import BadInput

pytestmark = pytest.mark.models
WEIGHTS = constants(w=normal(40, 50), b=normal(50))
BYTES = 40 * 50 * 4


def external(folder: Path, **entries: str) -> Path:
    """A model whose weight ``w`` is external, with these entries in place of the right ones."""
    model = model_of([node("Gemm", ["x", "w", "b"], ["y"])], {"x": (2, 40)}, ["y"], WEIGHTS)
    tensor = model.graph.initializer[0]
    (folder / "weights.bin").write_bytes(bytes(16) + tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    given = {"location": "weights.bin", "offset": "16", "length": str(BYTES)} | entries
    for key, value in given.items():
        tensor.external_data.add(key=key, value=value)
    return saved(model, folder)


def refusal(path: Path) -> str:
    with pytest.raises(BadInput) as caught:
        read_onnx(path, {})
    return caught.value.problem


def test_import_onnx_reads_external_data(tmp_path: Path) -> None:
    model = assert_equal(external(tmp_path), {"x": normal(2, 40)})
    assert [variable.name for variable in model.module["main"].params] == ["x", "w", "b"]
    np.testing.assert_array_equal(model.weights["main"][0], WEIGHTS["w"])


def test_import_onnx_reads_what_onnx_saves(tmp_path: Path) -> None:
    model: Any = model_of([node("Gemm", ["x", "w", "b"], ["y"])], {"x": (2, 40)}, ["y"], WEIGHTS)
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="model.data", size_threshold=0)
    assert_equal(path, {"x": normal(2, 40)})


@pytest.mark.parametrize("location", ["", ".", "/etc/passwd", "../weights.bin", "a/../../weights.bin", "a\\b", "a\0b"])
def test_import_onnx_refuses_locations_outside_of_the_folder(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "weights.bin").write_bytes(bytes(BYTES + 16))
    problem = refusal(external(folder, location=location))
    assert "outside of the model's folder" in problem or "not a regular file" in problem


def test_import_onnx_refuses_links_out_of_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(BYTES + 16))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "inner").symlink_to(tmp_path)
    assert "outside of the model's folder" in refusal(external(folder, location="link.bin"))
    assert "outside of the model's folder" in refusal(external(folder, location="inner/secret.bin"))


def test_import_onnx_refuses_external_data_that_are_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    assert "not a regular file" in refusal(external(tmp_path, location="pipe"))
    assert "not a regular file" in refusal(external(tmp_path, location="folder"))
    assert "No such file" in refusal(external(tmp_path, location="missing.bin"))


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ({"offset": "-1"}, "not a byte count"),
        ({"offset": "9" * 30}, "not a byte count"),
        ({"length": "1e3"}, "not a byte count"),
        ({"offset": "17"}, f"end at byte {BYTES + 17}"),
        ({"length": str(BYTES - 4)}, f"have {BYTES - 4} bytes; its shape and type take {BYTES}"),
    ],
)
def test_import_onnx_checks_offsets_and_lengths(tmp_path: Path, entries: dict[str, str], problem: str) -> None:
    assert problem in refusal(external(tmp_path, **entries))


def test_import_onnx_checks_external_data_in_branches(tmp_path: Path) -> None:
    def branch(name: str) -> Any:
        tensor = onnx.numpy_helper.from_array(normal(3), f"{name}_w")
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="/etc/passwd")
        value = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        return onnx.helper.make_graph([node("Add", ["x", f"{name}_w"], [name])], name, [], [value], [tensor])

    nodes = [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Greater", ["s", "z"], ["c"]),
        node("If", ["c"], ["y"], then_branch=branch("then"), else_branch=branch("else")),
    ]
    path = saved(model_of(nodes, {"x": (3,)}, ["y"], constants(z=np.float32(0))), tmp_path)
    assert "outside of the model's folder" in refusal(path)
