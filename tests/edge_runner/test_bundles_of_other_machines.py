"""Libraries of records for other architectures, installed and run by the runner in an emulator."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from tests.client.bundle.test_function_bundles import FUNCTIONS
from tests.edge_runner.test_other_machines import MACHINES, SYSTEMS
from tests.edge_runner.toolchain import RUNNER, Compiler, Device, Publisher, text_of, zig
from tests.targets.toolchain import emulator
from tunefarm.bundle.bundle_build import BundleBuilder
from tunefarm.bundle.bundle_source import FunctionsSource
from tunefarm.startup.fork_servers import start_fork_server
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.edge.release import Architecture

pytestmark = pytest.mark.targets

TARGETS: Final[dict[Architecture, dict[str, object]]] = {
    "aarch64": {"mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76"},
    "armv7": {"mtriple": "arm-linux-gnueabihf", "mcpu": "cortex-a9", "mattr": ["+neon"]},
    "riscv64": {
        "mtriple": "riscv64-linux-gnu",
        "mcpu": "generic-rv64",
        "mabi": "lp64d",
        "mattr": ["+m", "+a", "+f", "+d", "+c"],
    },
}


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    with start_fork_server() as started:
        yield started


@pytest.mark.parametrize("architecture", TARGETS)
def test_runner_runs_the_library_of_records(
    architecture: Architecture, fork_server: ForkServer, publisher: Publisher, tmp_path: Path
) -> None:
    target = json.dumps({"kind": "llvm", "num-cores": 1, **TARGETS[architecture]})
    source = FunctionsSource(FUNCTIONS, target)
    built = BundleBuilder(fork_server).build_source(source, "both", "library", tmp_path / "bundle")
    assert [each.kind for each in built.manifest.functions] == ["record", "record"]
    assert built.manifest.requires is not None
    triple, command, system, _ = MACHINES[architecture]
    compiler = Compiler(zig(triple), architecture)
    program = compiler.program(RUNNER / "src/main.cpp", compiler.objects(tmp_path / "objects"), tmp_path / "runner")
    device = Device(program, publisher.public, (emulator(command), "-L", str(SYSTEMS / system)))
    root = tmp_path / "root"
    root.mkdir()
    features = ",".join(built.manifest.requires.cpu_features) or "-"
    lacking = publisher.sign(built.folder, text_of(built.folder, 1, architecture, f"{features},none".lstrip("-,")))
    assert device.refusal("install", root, lacking) == "wrong_target"
    fitting = publisher.sign(built.folder, text_of(built.folder, 2, architecture, features))
    installed = device("install", root, fitting)
    assert installed.returncode == 0, installed.stderr
    given = np.random.default_rng(0).standard_normal((16, 8)).astype("float32")
    given.tofile(tmp_path / "input.bin")
    ended = device("run", root, tmp_path / "input.bin", "--entry", "twice", "--output", tmp_path / "y")
    assert ended.returncode == 0, ended.stderr
    np.testing.assert_array_equal(np.fromfile(tmp_path / "y0.bin", np.float32).reshape(16, 8), given * np.float32(2.0))
