"""Bundles linked for other machines: what libraries need, and archives that pass their self-test in an emulator."""

import subprocess
from pathlib import Path
from typing import Final

import pytest
import tvm

from tests.search.relax.models import convolutional_network
from tests.targets.toolchain import ZIG, emulator
from tunefarm.bundle.bundle_build import BundleBuilder
from tunefarm.frontend.model_import import ImportedModel
from tunefarm_sandbox.fork_server.fork_server import ForkServer

pytestmark = pytest.mark.targets

ARMV7: Final = (
    '{"kind": "llvm", "mtriple": "arm-linux-musleabihf", "mcpu": "cortex-a9", "mattr": ["+neon"], "num-cores": 2}'
)
AARCH64: Final = '{"kind": "llvm", "mtriple": "aarch64-linux-musl", "mcpu": "cortex-a72", "num-cores": 2}'
RISCV: Final = (
    '{"kind": "llvm", "mtriple": "riscv64-linux-musl", "mcpu": "generic-rv64", "mabi": "lp64d", "num-cores": 2, '
    '"mattr": ["+m", "+a", "+f", "+d", "+c", "+v"]}'
)
MACHINES: Final = {
    "aarch64": (AARCH64, "aarch64-linux-musl", ("qemu-aarch64-static",)),
    "armv7": (ARMV7, "arm-linux-musleabihf", ("qemu-arm-static",)),
    "riscv64": (RISCV, "riscv64-linux-musl", ("qemu-riscv64-static", "-cpu", "rv64,v=true,vext_spec=v1.0")),
}


def model() -> ImportedModel:
    small = convolutional_network()
    return ImportedModel(str(tvm.ir.save_json(small.module)), small.weights, "test", ())


@pytest.mark.parametrize(
    ("target", "libc", "architecture"),
    [
        ("raspberry-pi-4", "glibc 2.17", "aarch64"),
        (ARMV7.replace("musl", "gnu"), "glibc 2.4", "armv7"),
        ("riscv64-v", "glibc 2.27", "riscv64"),
        (AARCH64, "musl", "aarch64"),
    ],
)
def test_library_for_another_machine_needs_an_old_c_library(
    fork_server: ForkServer, target: str, libc: str, architecture: str, tmp_path: Path
) -> None:
    bundle = BundleBuilder(fork_server).build(model(), target, "net", "library", tmp_path / "bundle")
    assert bundle.manifest.requires is not None
    assert (bundle.manifest.requires.libc, bundle.manifest.requires.architecture) == (libc, architecture)


@pytest.mark.parametrize("name", MACHINES)
def test_archive_for_another_machine_passes_its_self_test(name: str, fork_server: ForkServer, tmp_path: Path) -> None:
    target, triple, command = MACHINES[name]
    folder = BundleBuilder(fork_server).build(model(), target, "net", "static", tmp_path / "bundle").folder
    program = tmp_path / "self_test"
    words = [*ZIG, "cc", "-target", triple, "-std=c11", "-O2", "-Iinclude", "self_test.c", "libmodel.a", "-lm"]
    subprocess.run([*words, "-pthread", "-o", str(program)], cwd=folder, check=True, capture_output=True, timeout=900)
    started = [str(emulator(command[0])), *command[1:], str(program), str(folder), "2", "2"]
    ended = subprocess.run(started, check=False, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "1 vectors, worst error" in ended.stdout
