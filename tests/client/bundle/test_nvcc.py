"""Which compiler of CUDA source compiles bundles."""

from importlib.metadata import version
from pathlib import Path

import pytest

from tests.client.bundle.cuda_functions import bound, cuda_bundle, mirrored_sum
from tests.cuda.toolkits import PACKAGE, installed_toolkit, package_with, silent_nvcc
from tunefarm.bundle.cuda.nvcc import GpuArchitecture, Nvcc
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput

NOWHERE = "/nonexistent"
KERNEL = 'extern "C" __global__ void twice(float *a) { a[threadIdx.x] *= 2.0f; }\n'


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """PATH and CUDA_HOME name no compiler."""
    monkeypatch.setenv("PATH", NOWHERE)
    monkeypatch.setenv("CUDA_HOME", NOWHERE)
    return monkeypatch


def test_path_comes_before_toolkit_and_toolkit_before_package(hidden: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package_with(tmp_path / "site", silent_nvcc(tmp_path / "site/nvidia/cu9/bin/nvcc", "9.8.7"))
    hidden.syspath_prepend(tmp_path / "site")
    found = Nvcc.found()
    assert (found.version, found.driver_major, found.driver_minor) == ("9.8.7", 9, 8)

    silent_nvcc(tmp_path / "toolkit/bin/nvcc", "10.2.3")
    hidden.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    assert Nvcc.found().version == "10.2.3"

    silent_nvcc(tmp_path / "programs/nvcc", "11.4.5")
    hidden.setenv("PATH", str(tmp_path / "programs"))
    assert Nvcc.found().version == "11.4.5"

    given = silent_nvcc(tmp_path / "given/nvcc-12", "12.6.7")
    assert Nvcc.found(str(given)).version == "12.6.7"


@pytest.mark.targets
def test_compiler_of_the_package_compiles_without_a_toolkit(hidden: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nvcc = Nvcc.found()
    assert Path(nvcc.path) == installed_toolkit() / "bin/nvcc"
    assert nvcc.version == version(PACKAGE)
    hidden.setenv("PATH", "/usr/bin:/bin")  # the C++ compiler
    code = nvcc.compiled(KERNEL, GpuArchitecture.named("sm_80"), tmp_path)
    assert code.shared_bytes == {"twice": 0}


def test_missing_compiler_is_named(fork_server: ForkServer, hidden: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package_with(tmp_path / "site")
    hidden.syspath_prepend(tmp_path / "site")
    given = (bound(mirrored_sum(), "6" * 32),)
    with pytest.raises(BadInput, match="'/nonexistent/nvcc' was not found"):
        cuda_bundle(fork_server, tmp_path / "bundle", given, cc="/nonexistent/nvcc")
    with pytest.raises(BadInput, match=r"'nvcc' was not found, .*pip install 'tunefarm\[cuda\]'"):
        cuda_bundle(fork_server, tmp_path / "bundle", given)
    assert [each.name for each in tmp_path.iterdir()] == ["site"]


def test_other_compiler_is_refused(fork_server: ForkServer, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not NVIDIA's compiler"):
        cuda_bundle(fork_server, tmp_path / "bundle", (bound(mirrored_sum(), "7" * 32),), cc="cc")
    broken = tmp_path / "nvcc"
    broken.write_text("#!/bin/sh\necho a library is missing >&2\nexit 127\n")
    broken.chmod(0o755)
    with pytest.raises(BadInput, match="nvcc --version failed: a library is missing"):
        Nvcc.found(str(broken))
