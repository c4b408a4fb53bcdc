"""The runner for other machines installs and runs a release in an emulator."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from tests.edge_runner.toolchain import EXPIRES, ISSUED, ROOT, RUNNER, Compiler, Device, Publisher, text_of, zig
from tests.targets.toolchain import emulator
from tunefarm_schemas.edge.report import EdgeReports

pytestmark = pytest.mark.targets

SYSTEMS: Final = ROOT / ".venv/emulators/usr"
MACHINES: Final = {
    "aarch64": ("aarch64-linux-gnu.2.28", "qemu-aarch64-static", "aarch64-linux-gnu", "asimd"),
    "armv7": ("arm-linux-gnueabihf.2.28", "qemu-arm-static", "arm-linux-gnueabihf", "neon"),
    "riscv64": ("riscv64-linux-gnu.2.28", "qemu-riscv64-static", "riscv64-linux-gnu", "d"),
}


@pytest.mark.parametrize("architecture", MACHINES)
def test_runner_installs_and_runs(architecture: str, publisher: Publisher, tmp_path: Path) -> None:
    target, command, system, feature = MACHINES[architecture]
    compiler = Compiler(zig(target), architecture)
    objects = compiler.objects(tmp_path / "objects")
    program = compiler.program(RUNNER / "src/main.cpp", objects, tmp_path / "runner")
    assert program.stat().st_size < 300 * 1024
    device = Device(program, publisher.public, (emulator(command), "-L", str(SYSTEMS / system)))
    assert feature in device("features").stdout.split()
    bundle, root = compiler.tiny_model(tmp_path / "bundle"), tmp_path / "root"
    root.mkdir()
    assert device.refusal("install", root, publisher.publish(bundle, 1, "x86_64")) == "wrong_target"
    assert device.refusal("install", root, publisher.publish(bundle, 2, architecture, feature)) == ""
    np.array([1, 2, 3, 4], np.float32).tofile(tmp_path / "input.bin")
    ended = device("run", root, tmp_path / "input.bin", "--output", tmp_path / "y")
    assert ended.returncode == 0, ended.stderr
    assert np.fromfile(tmp_path / "y0.bin", np.float32).tolist() == [2, 5, 8, 11]


def test_example_is_built_by_cmake_and_runs(compiler: Compiler, publisher: Publisher, tmp_path: Path) -> None:
    cmake = shutil.which("cmake")
    assert cmake is not None, "install cmake"
    source = ["-S", str(ROOT / "deploy/edge/example"), "-B", str(tmp_path / "build")]
    subprocess.run([cmake, *source, f"-DSODIUM_SOURCE={ROOT}/.venv/libsodium"], check=True, capture_output=True)
    subprocess.run([cmake, "--build", str(tmp_path / "build")], check=True, capture_output=True)
    bundle = compiler.tiny_model(tmp_path / "bundle")
    # The example goes by this machine's clock.
    always = text_of(bundle, 1).replace(f"issued {ISSUED}".encode(), b"issued 1")
    publisher.sign(bundle, always.replace(f"expires {EXPIRES}".encode(), b"expires 9000000000"))
    (tmp_path / "key").write_bytes(bytes.fromhex(publisher.public))
    ended = subprocess.run([tmp_path / "build/example", bundle, tmp_path / "key"], check=False, capture_output=True)
    assert ended.returncode == 0, ended.stderr
    assert EdgeReports.model_validate_json(ended.stdout).reports[0].body.kind == "latency"
