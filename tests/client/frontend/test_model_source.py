"""The MODEL argument, which is parsed without executing or loading anything."""

from pathlib import Path

import pytest

from tunefarm.frontend.model_source import FORMAT_OF_SUFFIX, ModelFile, parse_model_source
from tunefarm.intake.module_source import PythonSource
from tunefarm_schemas.bad_input import BadInput


@pytest.mark.parametrize("suffix", sorted(FORMAT_OF_SUFFIX))
def test_parse_model_source_takes_the_format_from_the_suffix(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"model{suffix}"
    path.write_bytes(b"not looked at")

    assert parse_model_source(str(path)) == ModelFile(path=str(path), format=FORMAT_OF_SUFFIX[suffix])


def test_parse_model_source_splits_file_and_name_without_running_the_file(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text("raise SystemExit(3)")

    assert parse_model_source(f"{path}:models.net") == PythonSource(path=str(path), symbol="models.net")


def test_parse_model_source_accepts_files_of_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    with path.open("wb") as file:
        file.truncate(3 << 30)

    assert parse_model_source(str(path)) == ModelFile(path=str(path), format="onnx")


@pytest.mark.parametrize(
    ("name", "problem", "fix"),
    [
        ("model.pt", "never loaded", "torch.export.save"),
        ("model.pth", "never loaded", "torch.export.save"),
        ("model.pkl", "never loaded", "torch.export.save"),
        ("model.safetensors", "without a model", "torch.export.save"),
        ("model.h5", "by way of ONNX", "tf2onnx.convert --keras"),
        ("saved_model.pb", "by way of ONNX", "tf2onnx.convert --saved-model"),
        ("model.params", "by way of ONNX", "mxnet.onnx.export_model"),
        ("model.pdmodel", "by way of ONNX", "paddle2onnx"),
        ("model.txt", "no suffix of a model", "FILE.py:NAME"),
    ],
)
def test_parse_model_source_states_how_to_export_other_formats(
    tmp_path: Path, name: str, problem: str, fix: str
) -> None:
    (tmp_path / name).write_bytes(b"")

    with pytest.raises(BadInput) as refused:
        parse_model_source(str(tmp_path / name))

    assert refused.value.field == "model"
    assert problem in refused.value.problem
    assert fix in refused.value.fix


def test_parse_model_source_rejects_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="does not exist"):
        parse_model_source(str(tmp_path / "absent.onnx"))
