"""Folders of models are checked before anything of them is loaded."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.client.model.conftest import CompiledOnce
from tunefarm.model.loaded_model import load_model
from tunefarm.model.model_folder import read_model_folder
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.kernel_library.check import exported_functions
from tunefarm_schemas.kernel_library.program import RELEASE_FUNCTION, functions_of_program, refusal_of_program


@pytest.fixture
def folder(network: CompiledOnce, tmp_path: Path) -> Path:
    return Path(shutil.copytree(network.folder, tmp_path / "model"))


def with_program(folder: Path, program: bytes) -> None:
    """A program with a manifest that matches it."""
    (folder / "program.vm").write_bytes(program)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"program": digest(program)}))


def test_read_model_folder_accepts_what_compile_wrote(folder: Path) -> None:
    files = read_model_folder(str(folder))
    os.close(files.weights)
    assert set(functions_of_program(files.program).defined) == {"main", RELEASE_FUNCTION}


@pytest.mark.parametrize("name", ["kernels.so", "program.vm", "weights.safetensors"])
def test_read_model_folder_refuses_changed_files(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[-1] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(BadInput, match="match"):
        load_model(folder)


@pytest.mark.parametrize("name", ["kernels.so", "program.vm", "weights.safetensors", "manifest.json"])
def test_read_model_folder_names_a_missing_file(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(BadInput, match="folder"):
        load_model(folder)


def test_read_model_folder_refuses_functions_outside_of_the_model(folder: Path) -> None:
    program = (folder / "program.vm").read_bytes()
    name = b"vm.builtin.match_shape"
    assert name in program
    with_program(folder, program.replace(name, b"vm.builtin.get_py_func"))
    with pytest.raises(BadInput, match="get_py_func"):
        load_model(folder)


def test_read_model_folder_refuses_a_newer_format(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"format": 99}))
    with pytest.raises(BadInput, match="newer"):
        load_model(folder)


def test_refusal_of_program_holds_for_every_prefix(folder: Path) -> None:
    program = (folder / "program.vm").read_bytes()
    kernels = exported_functions((folder / "kernels.so").read_bytes())
    assert refusal_of_program(program, kernels) is None
    table = program.index(b"vm.builtin.match_shape")
    for size in range(0, table, 7):
        assert refusal_of_program(program[:size], kernels) is not None
    assert refusal_of_program(program[:28] + b"\xff" * 64, kernels) is not None


def test_refusal_of_program_needs_its_kernels(folder: Path) -> None:
    refusal = refusal_of_program((folder / "program.vm").read_bytes(), ())
    assert refusal is not None
    assert re.fullmatch(r"it calls '\w+', which is not permitted", refusal)
