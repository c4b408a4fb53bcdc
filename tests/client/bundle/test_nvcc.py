"""Which compiler of CUDA source compiles bundles, what it may read, and what it may answer."""

import struct
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.client.bundle.cuda_functions import bound, cuda_bundle, mirrored_sum
from tests.client.bundle.fat_binary import MAGIC
from tests.client.bundle.test_cuda_bundle import needs_nvcc
from tests.cuda.toolkits import PACKAGE, hide_nvcc, installed_toolkit, package_with, silent_nvcc
from tunefarm.bundle.confined.confined_nvcc import ConfinedNvcc
from tunefarm.bundle.cuda.kernel_files import MAX_IMAGE_BYTES, cuda_files
from tunefarm.bundle.cuda.nvcc import DeviceCode, GpuArchitecture, Nvcc
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.bundle import CudaRequirements
from tunefarm_workers.builder.cuda_source import CudaFunction, CudaSource, KernelLaunch

NOWHERE = "/nonexistent"
SM_80 = GpuArchitecture.named("sm_80")
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
    code = nvcc.compiled(KERNEL, SM_80, tmp_path)
    assert code.shared_bytes == {"twice": 0}


def test_missing_compiler_is_named(fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hide_nvcc(monkeypatch, tmp_path / "site")
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


def test_toolkit_is_the_one_that_the_compiler_names(tmp_path: Path) -> None:
    plain = silent_nvcc(tmp_path / "toolkit/bin/nvcc", "12.6.7")
    assert Nvcc.found(str(plain)).toolkit == tmp_path / "toolkit"
    elsewhere = tmp_path / "programs/nvcc"
    elsewhere.parent.mkdir()
    elsewhere.write_text(f"{plain.read_text()}echo '#$ TOP={tmp_path}/programs/../toolkit' >&2\n")
    elsewhere.chmod(0o755)
    assert Nvcc.found(str(elsewhere)).toolkit == tmp_path / "toolkit"


def compiled_in(folder: Path, compile_cuda: ConfinedNvcc, source: str, nvcc: Nvcc) -> DeviceCode:
    folder.mkdir()
    return compile_cuda(nvcc, source, SM_80, folder)


@needs_nvcc
def test_confined_compiler_gives_the_same_code(fork_server: ForkServer, nvcc: Nvcc, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    here = nvcc.compiled(KERNEL, SM_80, tmp_path / "here")
    assert compiled_in(tmp_path / "there", ConfinedNvcc(fork_server), KERNEL, nvcc) == here


@needs_nvcc
def test_compiler_that_a_script_runs_is_confined(fork_server: ForkServer, nvcc: Nvcc, tmp_path: Path) -> None:
    script = tmp_path / "programs/nvcc"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {nvcc.path} "$@"\n')
    script.chmod(0o755)
    found = Nvcc.found(str(script))
    assert compiled_in(tmp_path / "there", ConfinedNvcc(fork_server), KERNEL, found).shared_bytes == {"twice": 0}


@needs_nvcc
def test_confined_compiler_reads_no_other_files(fork_server: ForkServer, nvcc: Nvcc, tmp_path: Path) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("#define TWICE a[threadIdx.x] *= 2.0f\n#warning the secret is 4711\n")
    link = tmp_path / "link.h"
    link.symlink_to(secret)
    for number, path in enumerate((secret, link, Path("/etc/passwd"), Path("/proc/1/environ"))):
        source = f'#include "{path}"\nextern "C" __global__ void twice(float *a) {{ TWICE; }}\n'
        with pytest.raises(BadInput, match="Permission denied") as refused:
            compiled_in(tmp_path / str(number), ConfinedNvcc(fork_server), source, nvcc)
        assert "4711" not in str(refused.value)
    (tmp_path / "here").mkdir()
    source = f'#include "{secret}"\nextern "C" __global__ void twice(float *a) {{ TWICE; }}\n'
    assert nvcc.compiled(source, SM_80, tmp_path / "here").shared_bytes == {"twice": 0}, "nothing else is wrong with it"


@needs_nvcc
def test_confined_compiler_tells_what_is_wrong_with_a_source(
    fork_server: ForkServer, nvcc: Nvcc, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match='identifier "undeclared" is undefined'):
        compiled_in(tmp_path / "a", ConfinedNvcc(fork_server), "__global__ void f() { undeclared(); }\n", nvcc)


FAT_BINARY = struct.pack("<IHHQ", MAGIC, 1, 16, 4) + b"code"


@pytest.mark.parametrize(
    ("image", "shared_bytes", "problem"),
    [
        (b"", {"twice": 0}, "something else than a fat binary"),
        (b"\x7fELF" + bytes(60), {"twice": 0}, "something else than a fat binary"),
        (FAT_BINARY[:-1], {"twice": 0}, "something else than a fat binary"),
        (FAT_BINARY + b"more", {"twice": 0}, "something else than a fat binary"),
        (bytes(MAX_IMAGE_BYTES + 1), {"twice": 0}, "16777217 bytes, and at most"),
        (FAT_BINARY, {"other": 0}, "said nothing about twice"),
        (FAT_BINARY, {"twice": -1}, "twice has -1 bytes of shared memory"),
        (FAT_BINARY, {"twice": 1 << 40}, "bytes of shared memory"),
    ],
)
def test_implausible_code_is_refused(image: bytes, shared_bytes: dict[str, int], problem: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=problem):
        files_of(DeviceCode(image, shared_bytes), tmp_path)


def test_shared_memory_is_that_of_launched_kernels(tmp_path: Path) -> None:
    files, requires = files_of(DeviceCode(FAT_BINARY, {"twice": 32, "other": 1 << 50}), tmp_path)
    assert (files["kernels/kernel0.fatbin"], requires.shared_memory_bytes) == (FAT_BINARY, 32 + 64)


def files_of(code: DeviceCode, scratch: Path) -> tuple[dict[str, bytes], CudaRequirements]:
    launch = KernelLaunch(kernel="twice", grid=(1, 1, 1), block=(8, 1, 1), dynamic_shared_bytes=64, arguments=(0,))
    function = CudaFunction(name="twice", tensors=1, workspaces_bytes=(), launches=(launch,))
    source = CudaSource(source=KERNEL, functions=(function,))
    nvcc = Nvcc("nvcc", "13.0.0", 13, 0)
    return cuda_files([source], nvcc, SM_80, scratch, lambda *_: code)
