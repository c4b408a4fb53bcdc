"""A build that is killed leaves the folder as it was, and the next build removes what it left."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.command import HANG_S
from tests.client.model.conftest import CompiledOnce
from tunefarm.model.loaded_model import load_model
from tunefarm.model.model_writing import STAGING_PREFIX, staged

BUILDING = """
import sys
from pathlib import Path
from tunefarm.model.model_writing import staged
with staged(Path(sys.argv[1])) as staging:
    (staging / "kernels.so").write_bytes(b"half")
    print("building", flush=True)
    sys.stdin.read()
"""


def building(folder: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", BUILDING, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "building\n"
    return process


def staging_folders(folder: Path) -> list[Path]:
    return list(folder.glob(f"{STAGING_PREFIX}*"))


def age(folder: Path) -> None:
    for each in staging_folders(folder):
        os.utime(each, (0, 0))


@pytest.mark.faults
def test_killed_build_leaves_the_model_and_its_rest_is_removed(network: CompiledOnce, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(network.folder, tmp_path / "model"))
    with building(folder) as process:
        process.kill()
        process.wait(HANG_S)
    assert load_model(folder).manifest == network.compilation.manifest
    (left,) = staging_folders(folder)
    age(folder)
    try:
        with staged(folder) as staging:
            assert not left.exists()
            assert staging_folders(folder) == [staging]
            raise InterruptedError
    except InterruptedError:
        pass
    assert staging_folders(folder) == []
    assert load_model(folder).manifest == network.compilation.manifest


def test_build_that_still_runs_keeps_its_files(tmp_path: Path) -> None:
    with building(tmp_path) as process:
        (running,) = staging_folders(tmp_path)
        age(tmp_path)
        try:
            with staged(tmp_path):
                assert running.is_dir()
                raise InterruptedError
        except InterruptedError:
            pass
        assert (running / "kernels.so").read_bytes() == b"half"
        process.kill()
