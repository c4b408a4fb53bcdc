"""Compile children with the nvcc of a toolkit, on a host without a GPU."""

import json
import struct
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.client.bundle.fat_binary import MAGIC
from tests.cuda.test_gpu_target import FACTS
from tests.cuda.toolkits import PACKAGE, installed_toolkit, silent_nvcc
from tests.workers import workloads
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.failure import FailureReason
from tunefarm_workers.builder.checked_library import checked_library
from tunefarm_workers.compile.compile_settings import CompileSettings
from tunefarm_workers.conversation.child_answer import ChildFailed
from tunefarm_workers.conversation.farm_settings import FarmSettings
from tunefarm_workers.cuda.gpu_target import target_of_gpu
from tunefarm_workers.session.compiler.local_compiler import LocalCompiler
from tunefarm_workers.session.device.session_messages import Toolchain

TARGET = target_of_gpu(FACTS)


def settings_of(toolkit: Path) -> CompileSettings:
    return CompileSettings(pool="cards", cuda_compiler="nvcc", cuda_toolkit=str(toolkit))


def test_version_is_that_of_the_toolkit_or_else_of_its_compiler(tmp_path: Path) -> None:
    silent_nvcc(tmp_path / "bin/nvcc", "12.6.85")
    assert settings_of(tmp_path).toolchain().compiler == "nvcc-12.6.85"
    (tmp_path / "version.json").write_text(json.dumps({"cuda_nvcc": {"version": "12.4.131"}}))
    assert settings_of(tmp_path).toolchain().compiler == "nvcc-12.4.131"
    (tmp_path / "version.json").write_text("{}")
    with pytest.raises(BadInput, match=r"version\.json has no version"):
        settings_of(tmp_path).toolchain()


def test_source_that_tvm_did_not_compile_is_a_build_error(fork_server: ForkServer, tmp_path: Path) -> None:
    without_runtime = Toolchain(environment=(("TVM_COMPILE_FORCE_FALLBACK", "1"),))
    compiler = LocalCompiler(fork_server, tmp_path, FarmSettings(), without_runtime)
    task = workloads.task(workloads.matmul(64), "e", target=TARGET)
    with closing(compiler.candidate(task, None)) as build, pytest.raises(ChildFailed) as failed:
        build.wait(lambda: True)
    assert failed.value.failure.reason is FailureReason.BUILD_ERROR
    assert "needs libcudart.so.13 of the CUDA toolkit and libcuda.so.1" in failed.value.failure.message


@pytest.mark.targets
def test_confined_child_compiles_a_candidate_with_nvcc(beside_driver: ForkServer, tmp_path: Path) -> None:
    settings = settings_of(installed_toolkit())
    compiler = LocalCompiler(beside_driver, tmp_path, settings.farm_settings(), settings.toolchain())
    task = workloads.task(workloads.matmul(64), "e", target=TARGET)
    with closing(compiler.candidate(task, None)) as build:
        _, library = build.wait(lambda: True)
    assert checked_library(library, TARGET).count(struct.pack("<I", MAGIC)) == 1
    with closing(compiler.references(TARGET, 1)) as build:
        built, library = build.wait_for_references(lambda: True)
    assert built.code_generator.endswith(f"+nvcc-{version(PACKAGE)}")
    assert struct.pack("<I", MAGIC) in checked_library(library, TARGET)
