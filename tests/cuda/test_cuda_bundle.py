"""A bundle for NVIDIA GPUs computes on one what its test vectors hold."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.bundle.cuda_functions import cuda_bundle, functions, gpu_target, matmul, tiled
from tunefarm.startup.fork_servers import start_fork_server
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_workers.cuda.gpu_facts import gpu_facts

pytestmark = pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="needs an NVIDIA GPU")


@pytest.fixture(scope="module")
def compiling() -> Iterator[ForkServer]:
    with start_fork_server() as started:
        yield started


def test_self_test_passes_on_the_gpu(compiling: ForkServer, tmp_path: Path) -> None:
    given = (*functions()[:2], tiled(matmul(), "4" * 32, "shared.dyn"))
    folder = tmp_path / "bundle"
    cuda_bundle(compiling, folder, given, gpu_target(gpu_facts(0).architecture))
    sources = sorted(str(each.relative_to(folder)) for each in folder.rglob("*.c"))
    command = ["cc", "-std=c11", "-O2", "-I.", "-Iruntime", *sources, "-lm", "-ldl", "-pthread", "-o", "self_test"]
    subprocess.run(command, cwd=folder, check=True, timeout=600)
    ended = subprocess.run(["./self_test", "."], cwd=folder, check=False, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr + ended.stdout
