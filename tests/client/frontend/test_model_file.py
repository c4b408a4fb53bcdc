from pathlib import Path

import pytest

from tunefarm.frontend.model_file import model_file
from tunefarm.frontend.model_source import ModelFile
from tunefarm_schemas.bad_input import BadInput


def test_model_file_is_told_by_its_suffix(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(b"")
    assert model_file(str(path)) == ModelFile(path=str(path), format="onnx")


@pytest.mark.parametrize("text", ["builtin:matmul", "te:GMM", "net.py", "net.py:model", "net.json", "net.txt"])
def test_what_may_be_a_module_is_left_to_the_intake(text: str) -> None:
    assert model_file(text) is None


@pytest.mark.parametrize("name", ["net.pt", "net.safetensors", "net.h5"])
def test_model_that_is_not_read_is_rejected_with_a_way_around(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(BadInput) as refused:
        model_file(str(tmp_path / name))
    assert refused.value.fix
