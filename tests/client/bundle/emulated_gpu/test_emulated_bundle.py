"""The self-test of a bundle for NVIDIA GPUs passes on the emulated GPU, and fails where a kernel is wrong."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.client.bundle.cuda_functions import cuda_bundle, functions, matmul, tiled
from tests.client.bundle.emulated_gpu.emulator import Emulator
from tests.client.bundle.test_cuda_bundle import host_part, needs_nvcc
from tests.client.bundle.test_function_bundles import product_of_half, scale_expected
from tunefarm_sandbox.fork_server.fork_server import ForkServer


@pytest.fixture(scope="module", params=["shared", "shared.dyn"])
def built(request: pytest.FixtureRequest, fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cuda") / "bundle"
    cuda_bundle(fork_server, folder, (*functions()[:2], tiled(matmul(), "3" * 32, request.param)))
    return folder


def self_test(
    bundle: Path, folder: Path, changed: Callable[[str], str] = lambda source: source
) -> subprocess.CompletedProcess[str]:
    """The self-test with the kernels of the bundle after a change to their source."""
    host = host_part(bundle, folder)
    emulator = Emulator(folder)
    kernels = [emulator.compile_kernels(changed(each.read_text())) for each in sorted(bundle.glob("kernels/*.cu"))]
    return host({"KERNELS": ":".join(map(str, kernels))})


@needs_nvcc
def test_self_test_passes(built: Path, tmp_path: Path) -> None:
    ended = self_test(built, tmp_path / "host")
    assert (ended.returncode, ended.stderr) == (0, "")
    found = re.match(r"3 vectors, worst error (\S+) of what is allowed", ended.stdout)
    assert found is not None
    assert float(found[1]) <= 1.0


@needs_nvcc
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0x1p+1f", "0x1.8p+1f"),
        (" + 63)", " + 63 - (int)(blockIdx.x % 2))"),
        ("__syncthreads();", ""),
    ],
    ids=["factor", "index", "barrier"],
)
def test_wrong_kernel_fails_the_self_test(built: Path, tmp_path: Path, old: str, new: str) -> None:
    assert any(old in each.read_text() for each in built.glob("kernels/*.cu"))
    ended = self_test(built, tmp_path / "host", lambda source: source.replace(old, new))
    assert ended.returncode == 1
    assert "worst error" in ended.stdout


@needs_nvcc
def test_what_a_gpu_would_not_do_is_an_error_of_the_run(built: Path, tmp_path: Path) -> None:
    def without_one(source: str) -> str:
        return source.replace("__syncthreads();", "if (threadIdx.x) __syncthreads();", 1)

    ended = self_test(built, tmp_path / "host", without_one)
    assert ended.returncode == 1
    assert "matmul_kernel: block 0,0,0: thread 0 waits at a barrier in line" in ended.stderr


@needs_nvcc
def test_floats_of_16_bits_are_compared_by_their_values(fork_server: ForkServer, tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    cuda_bundle(fork_server, folder, (product_of_half("half", "blockIdx.x", "threadIdx.x"),))
    passed = self_test(folder, tmp_path / "host")
    assert (passed.returncode, passed.stderr) == (0, "")
    assert "1 vectors, worst error 0 " not in passed.stdout, "the sums have the same order"
    scale_expected(folder, 1.1)
    assert self_test(folder, tmp_path / "other").returncode == 1
