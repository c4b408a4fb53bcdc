"""Bundles for other machines pass their self-test in an emulator or an engine."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import ml_dtypes
import pytest
import tvm

from tests.search.relax.models import convolutional_network
from tests.search.relax.products.test_narrow_weights import FOUR_BITS, GROUPS, Weights, halves, layer
from tests.targets.toolchain import ZIG, emulator
from tunefarm.bundle.bundle_build import BundleBuilder
from tunefarm.frontend.model_import import ImportedModel
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.tuning.bundle import BundleForm

pytestmark = pytest.mark.targets

STRICT: Final = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-I.", "-Iruntime")


@dataclass(frozen=True)
class Device:
    """What a bundle is built for, compiled with and run by. Without an emulator, an engine for WebAssembly runs it."""

    target: str
    form: BundleForm
    triple: str
    flags: tuple[str, ...] = ()
    emulator: tuple[str, ...] = ()


DEVICES: Final = {
    "aarch64": Device("raspberry-pi-4", "objects", "aarch64-linux-musl", emulator=("qemu-aarch64-static",)),
    "aarch64 from C": Device("raspberry-pi-4", "c", "aarch64-linux-musl", emulator=("qemu-aarch64-static",)),
    "armv7 from C": Device("raspberry-pi-3", "c", "arm-linux-musleabihf", emulator=("qemu-arm-static",)),
    "riscv64": Device(
        "riscv64-v",
        "objects",
        "riscv64-linux-musl",
        emulator=("qemu-riscv64-static", "-cpu", "rv64,v=true,vext_spec=v1.0"),
    ),
    "riscv64 from C": Device("riscv64-v", "c", "riscv64-linux-musl", emulator=("qemu-riscv64-static",)),
    "WebAssembly": Device("wasm32-simd128", "objects", "wasm32-wasi", ("-msimd128", "-DTUNEFARM_RUNTIME_SERIAL")),
    "WebAssembly from C": Device("wasm32-simd128", "c", "wasm32-wasi", ("-DTUNEFARM_RUNTIME_SERIAL",)),
}


def compiled(device: Device, folder: Path, program: Path) -> None:
    threads = ("-pthread",) if device.emulator else ()
    kernels = sorted(str(each.relative_to(folder)) for each in folder.glob("kernels/*"))
    runtime = sorted(str(each.relative_to(folder)) for each in folder.glob("runtime/*.c"))
    command = [*ZIG, "cc", "-target", device.triple, *STRICT, *device.flags, *threads, "model.c", *kernels, *runtime]
    ended = subprocess.run([*command, "-lm", "-o", str(program)], cwd=folder, check=False, capture_output=True)
    assert ended.returncode == 0, ended.stderr.decode(errors="replace")[-3000:]


def run(device: Device, program: Path, folder: Path) -> str:
    if device.emulator:
        command: Sequence[str] = (str(emulator(device.emulator[0])), *device.emulator[1:], str(program), str(folder))
    else:
        engine = Path(__file__).with_name("run_wasm.py")
        command = (sys.executable, str(engine), str(program), str(folder))
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def network() -> ImportedModel:
    small = convolutional_network()
    return ImportedModel(str(tvm.ir.save_json(small.module)), small.weights, "test", ())


def layer_of(weights: Weights) -> ImportedModel:
    module, arrays = layer(weights, (2,))
    return ImportedModel(str(tvm.ir.save_json(module)), {"main": arrays}, "test", ())


@pytest.mark.parametrize(
    "model",
    [network(), layer_of(FOUR_BITS), layer_of(GROUPS), layer_of(halves(ml_dtypes.bfloat16))],
    ids=["network", "4 bits", "8 bits", "bfloat16"],
)
@pytest.mark.parametrize("name", DEVICES)
def test_bundle_passes_its_self_test(name: str, model: ImportedModel, fork_server: ForkServer, tmp_path: Path) -> None:
    device = DEVICES[name]
    folder = BundleBuilder(fork_server).build(model, device.target, "net", device.form, tmp_path / "bundle").folder
    program = tmp_path / "self_test"
    compiled(device, folder, program)
    assert "1 vectors, worst error" in run(device, program, folder)
    shutil.rmtree(folder)
