"""The runner for this machine, built once for all tests of a process."""

import platform
from pathlib import Path

import pytest

from tests.edge_runner.toolchain import RUNNER, SODIUM, Compiler, Device, Publisher


@pytest.fixture(scope="session")
def publisher() -> Publisher:
    return Publisher()


@pytest.fixture(scope="session")
def compiler() -> Compiler:
    if platform.machine() != "x86_64":
        pytest.skip("these tests run natively on x86-64; make test-targets runs the other architectures")
    assert SODIUM.exists(), "libsodium is missing: run make test"
    return Compiler()


@pytest.fixture(scope="session")
def objects(compiler: Compiler, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return compiler.objects(tmp_path_factory.mktemp("runner") / "objects")


@pytest.fixture(scope="session")
def device(
    compiler: Compiler, objects: list[Path], publisher: Publisher, tmp_path_factory: pytest.TempPathFactory
) -> Device:
    program = tmp_path_factory.mktemp("program") / "tunefarm-runner"
    return Device(compiler.program(RUNNER / "src/main.cpp", objects, program), publisher.public)


@pytest.fixture(scope="session")
def faulty_device(
    compiler: Compiler, objects: list[Path], publisher: Publisher, tmp_path_factory: pytest.TempPathFactory
) -> Device:
    """A build that fails, or loses its power, at a chosen operation on files."""
    folder, switch = tmp_path_factory.mktemp("faulty"), "TUNEFARM_RUNNER_FAULTS"
    switched = [each for each in RUNNER.glob("src/*.cpp") if switch in each.read_text() and each.name != "main.cpp"]
    changed = compiler.objects_of(switched, folder, f"-D{switch}", with_sodium=False)
    assert changed
    kept = [each for each in objects if each.name not in {other.name for other in changed}]
    program = compiler.program(RUNNER / "src/main.cpp", [*kept, *changed], folder / "runner", f"-D{switch}")
    return Device(program, publisher.public)
