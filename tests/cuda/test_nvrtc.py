"""NVRTC compiles what TVM generates without the headers of libcu++, to the same machine code."""

import io
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from tvm.backend.cuda.codegen.header import header_generator
from tvm.support import nvcc

from tests.cuda.test_gpu_target import FACTS
from tests.cuda.toolkits import installed_toolkit
from tests.workers import workloads
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_workers.builder.checked_library import checked_library
from tunefarm_workers.builder.cuda_source import cuda_source
from tunefarm_workers.builder.nvrtc import NotCompiledByNvrtc, compile_by_nvrtc, is_self_sufficient
from tunefarm_workers.compile.compile_settings import CompileSettings
from tunefarm_workers.cuda.gpu_target import target_of_gpu
from tunefarm_workers.session.compiler.local_compiler import LocalCompiler
from tunefarm_workers.session.device.default_schedule import scheduled_for
from tunefarm_workers.session.device.device_target import device_target
from tunefarm_workers.session.device.session_messages import Toolchain

TARGET = target_of_gpu(FACTS)
ARCHITECTURE = "sm_90"
ASSERTIONS = r"""
template <class A> void check() {
  static_assert(std::is_same<A, A>::value && !std::is_same<A, void>::value && std::is_same_v<A, A>);
  static_assert(std::is_same<typename std::enable_if<true, A>::type, A>::value);
  static_assert(std::is_same<typename std::conditional<true, A, void>::type, A>::value);
  static_assert(std::is_same<typename std::conditional<false, void, A>::type, A>::value);
}
template <class A, bool IsIntegral, bool IsSigned> constexpr bool is() {
  return std::is_integral<A>::value == IsIntegral && std::is_signed<A>::value == IsSigned
      && std::is_unsigned<A>::value == (IsIntegral && !IsSigned)
      && std::is_floating_point<A>::value == (!IsIntegral && IsSigned);
}
struct Other {};
static_assert(sizeof(int8_t) == 1 && sizeof(int16_t) == 2 && sizeof(int32_t) == 4 && sizeof(int64_t) == 8);
static_assert(sizeof(uint8_t) == 1 && sizeof(uint16_t) == 2 && sizeof(uint32_t) == 4 && sizeof(uint64_t) == 8);
static_assert(is<int8_t, true, true>() && is<int16_t, true, true>() && is<int32_t, true, true>());
static_assert(is<int64_t, true, true>() && is<long long, true, true>() && is<const int, true, true>());
static_assert(is<uint8_t, true, false>() && is<uint16_t, true, false>() && is<uint32_t, true, false>());
static_assert(is<uint64_t, true, false>() && is<bool, true, false>() && is<volatile unsigned, true, false>());
static_assert(is<float, false, true>() && is<const double, false, true>());
static_assert(is<void, false, false>() && is<Other, false, false>() && is<int*, false, false>());
extern "C" __global__ void kernel(float* result) { check<float>(); check<int64_t>(); result[0] = INFINITY; }
"""

pytestmark = pytest.mark.targets


@pytest.fixture
def toolkit_of_tvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A toolkit in the layout in which TVM looks for libcu++."""
    folder = tmp_path / "toolkit"
    headers = installed_toolkit() / "include"
    (folder / "targets" / f"{os.uname().machine}-linux").mkdir(parents=True)
    (folder / "targets" / f"{os.uname().machine}-linux" / "include").symlink_to(headers)
    monkeypatch.setenv("CUDA_PATH", str(folder))
    return folder


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_machine_code_is_that_of_source_with_the_headers_of_libcupp(toolkit_of_tvm: Path, dtype: str) -> None:
    source = source_of(workloads.matmul(64, dtype=dtype))
    assert is_self_sufficient(source)
    code = compile_by_nvrtc(source, ARCHITECTURE, toolkit_of_tvm)
    assert machine_code(code) == machine_code(by_tvm(source))


@pytest.mark.parametrize("tags", [["cuda"], ["cuda", "fp16", "bf16", "math_constants", "int8", "mma", "warp_shuffle"]])
def test_names_mean_what_they_mean_in_libcupp(toolkit_of_tvm: Path, tags: list[str]) -> None:
    source = str(header_generator(tags)) + ASSERTIONS
    assert is_self_sufficient(source)
    code = compile_by_nvrtc(source, ARCHITECTURE, toolkit_of_tvm)
    assert machine_code(code) == machine_code(by_tvm(source))


@pytest.mark.parametrize("tag", ["cuda/barrier", "cooperative_groups", "fp8", "fp6", "fp4", "nvshmem"])
def test_source_with_other_headers_is_left_to_tvm(tag: str) -> None:
    assert not is_self_sufficient(str(header_generator(["cuda", tag])))


def test_refused_source_is_reported_with_its_line() -> None:
    with pytest.raises(NotCompiledByNvrtc, match=r"NVRTC_ERROR_COMPILATION(.|\n)*\(3\): error(.|\n)*nowhere"):
        compile_by_nvrtc('extern "C" __global__ void kernel() {\n  nowhere(); }', ARCHITECTURE, installed_toolkit())


def test_confined_child_compiles_a_candidate(beside_driver: ForkServer, tmp_path: Path) -> None:
    settings = CompileSettings(pool="cards", cuda_compiler="nvrtc", cuda_toolkit=str(installed_toolkit()))
    compiler = LocalCompiler(beside_driver, tmp_path, settings.farm_settings(), settings.toolchain())
    task = workloads.task(workloads.matmul(64), "e", target=TARGET)
    with closing(compiler.candidate(task, None)) as build:
        _, library = build.wait(lambda: True)
    assert checked_library(library, TARGET).count(b"\x7fELF") == 2  # the library, and the cubin in it


def source_of(module: Any) -> str:
    """The CUDA source of a module in TVM's default mapping to blocks and threads."""
    target = device_target(TARGET, Toolchain())
    return cuda_source(scheduled_for(module, None, target, ()), TARGET).source


def by_tvm(source: str) -> bytes:
    return bytes(nvcc.compile_cuda(source, target_format="cubin", arch=ARCHITECTURE, compiler="nvrtc"))


def machine_code(cubin: bytes) -> dict[str, bytes]:
    """The instructions of each kernel."""
    sections = ELFFile(io.BytesIO(cubin)).iter_sections()
    found = {section.name: section.data() for section in sections if section.name.startswith(".text.")}
    assert found
    return found
