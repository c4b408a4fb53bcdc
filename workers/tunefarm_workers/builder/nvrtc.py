"""Compiles the CUDA C++ that TVM generates by NVRTC, in this process.

TVM gives NVRTC three headers of libcu++ with each kernel, for the names of integer types, a few type traits and
infinity. Parsing them takes five times what a usual kernel takes to compile. Here NVRTC gets definitions of these names
alone; the options are TVM's, and so is the machine code. Source that includes other headers is left to TVM.
"""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import tvm_ffi
from tvm.support import nvcc

_CALLBACK: Final = "tvm_callback_cuda_compile"
"""TVM's global function from CUDA C++ to machine code."""

_INTEGERS: Final = """
namespace cuda { namespace std {
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
} }
"""
_TRAITS: Final = """
namespace cuda { namespace std {
template <bool V> struct bool_constant { static constexpr bool value = V; };
template <class A, class B> struct is_same : bool_constant<false> {};
template <class A> struct is_same<A, A> : bool_constant<true> {};
template <class A, class B> inline constexpr bool is_same_v = is_same<A, B>::value;
template <class A> struct remove_cv { typedef A type; };
template <class A> struct remove_cv<const A> { typedef A type; };
template <class A> struct remove_cv<volatile A> { typedef A type; };
template <class A> struct remove_cv<const volatile A> { typedef A type; };
template <class A, class... B> struct is_any_of : bool_constant<(is_same_v<typename remove_cv<A>::type, B> || ...)> {};
template <class A> struct is_floating_point : is_any_of<A, float, double> {};
template <class A> struct is_integral : is_any_of<A, bool, char, signed char, unsigned char, wchar_t, char16_t,
    char32_t, short, unsigned short, int, unsigned int, long, unsigned long, long long, unsigned long long,
    __int128, unsigned __int128> {};
template <class A> struct is_arithmetic : bool_constant<is_integral<A>::value || is_floating_point<A>::value> {};
template <class A, bool = is_arithmetic<A>::value> struct is_signed : bool_constant<(A(-1) < A(0))> {};
template <class A> struct is_signed<A, false> : bool_constant<false> {};
template <class A> struct is_unsigned : bool_constant<is_integral<A>::value && !is_signed<A>::value> {};
template <bool V, class A = void> struct enable_if {};
template <class A> struct enable_if<true, A> { typedef A type; };
template <bool V, class A, class B> struct conditional { typedef A type; };
template <class A, class B> struct conditional<false, A, B> { typedef B type; };
} }
"""
_HEADERS: Final = {"cuda/std/cstdint": _INTEGERS, "cuda/std/type_traits": _TRAITS}
"""What NVRTC finds under these names instead of libcu++."""

_PREAMBLE: Final = "#define INFINITY __int_as_float(0x7f800000)\n"
_OTHER_HEADERS: Final = frozenset({"cuda_fp16.h", "cuda_bf16.h", "math_constants.h", "mma.h", "sm_61_intrinsics.h"})
"""Headers of the toolkit that include nothing of libcu++."""

_UNSEEN: Final = frozenset({"cstdint", "type_traits", "cuda.h"})
"""Headers that TVM includes for nvcc alone."""

_INCLUDE: Final = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
_OPTIONS: Final = (
    "-default-device",
    "--device-int128",
    "--use_fast_math",
    "--ptxas-options=--register-usage-level=10",
    *(
        f"-U__CUDA_NO_{name}__"
        for name in (
            "HALF_OPERATORS",
            "HALF_CONVERSIONS",
            "BFLOAT16_OPERATORS",
            "BFLOAT16_CONVERSIONS",
            "BFLOAT162_OPERATORS",
            "BFLOAT162_CONVERSIONS",
        )
    ),
)


class NotCompiledByNvrtc(Exception):
    """Raised for source that NVRTC refuses, with its messages."""


def preload() -> None:
    """Load NVRTC where it is installed, and let TVM compile by it where a child's toolchain says so.

    The library has 100 MB, which each child would map and relocate for itself.
    """
    tvm_ffi.register_global_func(_CALLBACK, _compiled, override=True)
    with suppress(Exception):  # a host without NVRTC, or one where only a toolchain's environment finds it
        import_module("cuda.bindings.nvrtc").nvrtcVersion()


def _compiled(source: str) -> Any:
    """Replaces TVM's callback of that name."""
    if os.environ.get("TVM_CUDA_COMPILE_MODE") != "nvrtc" or not is_self_sufficient(source):
        return nvcc.tvm_callback_cuda_compile(source)
    architecture = "sm_" + nvcc.get_target_compute_version().replace(".", "")
    return compile_by_nvrtc(source, architecture, Path(os.environ["CUDA_HOME"]))


def is_self_sufficient(source: str) -> bool:
    """Whether CUDA C++ that TVM generated needs nothing of libcu++ but the names defined here."""
    return "CUtensorMap" not in source and set(_INCLUDE.findall(source)) <= _UNSEEN | _OTHER_HEADERS | set(_HEADERS)


def compile_by_nvrtc(source: str, architecture: str, toolkit: Path) -> bytes:
    """Machine code, a cubin, for an architecture such as ``sm_90``, with the headers of a CUDA toolkit.

    Raises:
        NotCompiledByNvrtc: NVRTC refuses the source.
    """
    nvrtc = import_module("cuda.bindings.nvrtc")
    names = [name.encode() for name in _HEADERS]
    texts = [text.encode() for text in _HEADERS.values()]
    status, program = nvrtc.nvrtcCreateProgram(
        (_PREAMBLE + source).encode(), b"tvm_kernels.cu", len(names), texts, names
    )
    _check(nvrtc, status, "")
    try:
        options = [f"--gpu-architecture={architecture}", *_OPTIONS, *_include_options(toolkit)]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        log = _read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        _check(nvrtc, status, log.decode(errors="replace").strip("\0\n"))
        return _read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _include_options(toolkit: Path) -> list[str]:
    machine = f"{os.uname().machine}-linux"
    folders = (toolkit / "include", toolkit / "targets" / machine / "include", toolkit / "targets/sbsa-linux/include")
    return [f"-I{folder}" for folder in folders if folder.is_dir()]


def _read(size_of: Callable[[Any], Any], write: Callable[[Any, bytearray], Any], program: Any) -> bytes:
    """The log or the code of a program, which NVRTC writes into a buffer of the size that it states."""
    _, size_bytes = size_of(program)
    buffer = bytearray(size_bytes)
    write(program, buffer)
    return bytes(buffer)


def _check(nvrtc: Any, status: Any, log: str) -> None:
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        _, name = nvrtc.nvrtcGetErrorString(status)
        raise NotCompiledByNvrtc(f"{name.decode()}\n{log}".strip())
