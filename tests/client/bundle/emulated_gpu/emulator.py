"""Kernels in CUDA source as libraries of this host, and a driver that runs them.

A library has the kernels of one source: two sources may have helpers of the same name. ``g++`` compiles it with the
headers in ``include``, which stand in for those of the CUDA toolkit. Of a GPU's instructions in ``asm``, asynchronous
copies are translated; others do not compile.
"""

import ctypes
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tunefarm_workers.builder.cuda_source import CudaFunction, CudaSource, KernelLaunch

HERE: Final = Path(__file__).parent
STAND_IN: Final = HERE.parent / "stand_in_libcuda.c"
DRIVER: Final = "libcuda.so.1"
_PARTS: Final = ("block_of_threads", "asynchronous_copies")
Array = npt.NDArray[Any]
_INCLUDES: Final = ("-I", str(HERE / "include"))
_WARNINGS: Final = ("-Wall", "-Wextra", "-Werror")
# Checked versions of longjmp take a switch of stacks for an error.
_FOR_KERNELS: Final = ("g++", "-std=c++17", "-O1", "-U_FORTIFY_SOURCE", "-fPIC", "-fvisibility=hidden", *_INCLUDES)
_FOR_THE_DRIVER: Final = ("cc", "-std=gnu11", "-O1", "-shared", "-fPIC", *_WARNINGS, *_INCLUDES)
_CHECKS: Final = ("-fsanitize=alignment,bounds", "-ftrivial-auto-var-init=pattern", "-fstack-clash-protection")
_DEVICE: Final = "emulated_device.h"
_KERNEL: Final = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\((\d+)[^)]*\)\s*)?(\w+)\s*\([^;{]*\)\s*\{")
_DYNAMIC: Final = re.compile(r"extern\s+__shared__\s+(?:(?:__align__|alignas)\(\d+\)\s+)?([\w ]+?)\s+(\w+)\[\];")
_INSTRUCTIONS: Final = (
    (r'asm volatile\("cp\.async\.commit_group;"[^;]*\);', "emulated::commit_copies();"),
    (r'asm volatile\("cp\.async\.wait_group (\d+);"[^;]*\);', r"emulated::wait_for_copies(\1);"),
    (
        r'asm volatile\("cp\.async\.c[ag]\.shared\.global \[%0\], \[%1\], %2;"[^;]*"n"\((\d+)\)\);',
        r"emulated::copy_later(dst_p, src_p, \1);",
    ),
    (
        r'__asm__ __volatile__\((?:[^;]|;\\n)*" @p cp\.async\.(?:[^;]|;\\n)*"n"\((\d+)\), "r"\(predicate\)[^;]*\);',
        r"emulated::copy_later(dst_p, predicate ? src_p : nullptr, \1);",
    ),
)
"""Instructions in the helpers that TVM writes to a source, and what does the same here."""
_MAX_DYNAMIC_SHARED_BYTES: Final = 8
"""The number of an attribute of kernels in the driver's interface."""


class EmulationError(Exception):
    """A kernel did what a GPU does not do, or the driver refused a call."""


@dataclass(frozen=True)
class Emulator:
    """A folder with what kernels need, compiled: the parts that run their threads, and the driver."""

    folder: Path

    @classmethod
    def compiled(cls, folder: Path) -> "Emulator":
        """Compiles the parts to a folder that exists."""
        for name in _PARTS:
            _compile([*_FOR_KERNELS, *_WARNINGS, "-c", str(HERE / f"{name}.cpp"), "-o", str(folder / f"{name}.o")])
        # Precompiled, the header takes half as long in each library. g++ takes it for equal flags only.
        header = ("-x", "c++-header", str(HERE / "include" / _DEVICE), "-o", str(folder / f"{_DEVICE}.gch"))
        _compile([*_FOR_KERNELS, *_CHECKS, "-w", *header])
        _compile([*_FOR_THE_DRIVER, str(STAND_IN), "-ldl", "-o", str(folder / DRIVER)])
        return cls(folder)

    def compile_kernels(self, source: str) -> Path:
        """A shared library of this host with the kernels of CUDA source. It is compiled once.

        Raises:
            EmulationError: the source has what the headers lack, such as instructions of a GPU.
        """
        library = self.folder / f"{hashlib.sha256(source.encode()).hexdigest()[:16]}.so"
        if not library.exists():
            code = library.with_suffix(".cpp")
            code.write_text("\n".join(_host_source(source)))
            parts = (str(self.folder / f"{name}.o") for name in _PARTS)
            flags = (*_FOR_KERNELS[:1], "-I", str(self.folder), *_FOR_KERNELS[1:], *_CHECKS, "-w", "-shared")
            _compile([*flags, str(code), *parts, "-o", str(library)])
        return library

    def run(self, source: CudaSource, inputs: Sequence[Array], outputs: Sequence[Array]) -> list[Array]:
        """Runs the function of a source, as the host part of a bundle does.

        Args:
            source: of one function.
            inputs: its first tensors.
            outputs: its other tensors, of which only shape and type matter.

        Returns:
            The outputs. Elements that no thread wrote are NaN.

        Raises:
            EmulationError: a kernel did what a GPU does not do.
        """
        [function] = source.functions
        kernels = self.compile_kernels(source.source)
        # A library is loaded once from a path, and a driver keeps what an earlier run left.
        driver = shutil.copy(self.folder / DRIVER, tempfile.mkdtemp(dir=self.folder))
        return _Driver(ctypes.CDLL(driver), kernels).run(function, inputs, outputs)


@dataclass(frozen=True)
class _Driver:
    library: ctypes.CDLL
    kernels: Path

    def call(self, name: str, *arguments: object) -> None:
        result = getattr(self.library, name)(*arguments)
        if result != 0:
            text = ctypes.c_char_p()
            self.library.cuGetErrorString(result, ctypes.byref(text))
            raise EmulationError(f"{name}: {(text.value or b'').decode()} ({result})")

    def run(self, function: CudaFunction, inputs: Sequence[Array], outputs: Sequence[Array]) -> list[Array]:
        context, module = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("stand_in_load", str(self.kernels).encode())
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxPushCurrent_v2", context)
        self.call("cuModuleLoadData", ctypes.byref(module), (ctypes.c_uint32 * 1)(0xBA55ED50))
        sizes = [*(each.nbytes for each in (*inputs, *outputs)), *function.workspaces_bytes]
        addresses = [self._allocated(size) for size in sizes]
        for given, address in zip(map(np.ascontiguousarray, inputs), addresses, strict=False):
            self.call("cuMemcpyHtoD_v2", address, _pointer(given), ctypes.c_size_t(given.nbytes))
        for launch in function.launches:
            self._launch(module, launch, addresses)
        self.call("cuCtxSynchronize")
        results = [np.empty(each.shape, each.dtype) for each in outputs]
        for result, address in zip(results, addresses[len(inputs) :], strict=False):
            self.call("cuMemcpyDtoH_v2", _pointer(result), address, ctypes.c_size_t(result.nbytes))
        for address in addresses:
            self.call("cuMemFree_v2", address)
        return results

    def _allocated(self, size_bytes: int) -> ctypes.c_uint64:
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size_bytes))
        return address

    def _launch(self, module: ctypes.c_void_p, launch: KernelLaunch, addresses: Sequence[ctypes.c_uint64]) -> None:
        kernel = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(kernel), module, launch.kernel.encode())
        if launch.dynamic_shared_bytes:
            self.call("cuFuncSetAttribute", kernel, _MAX_DYNAMIC_SHARED_BYTES, launch.dynamic_shared_bytes)
        pointers = (ctypes.c_void_p * len(launch.arguments))(
            *(ctypes.addressof(addresses[number]) for number in launch.arguments)
        )
        sizes = (*launch.grid, *launch.block, launch.dynamic_shared_bytes)
        self.call("cuLaunchKernel", kernel, *sizes, None, pointers, None)


def _pointer(array: Array) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def _host_source(source: str) -> Iterator[str]:
    """The source with names for its dynamic shared memory, then each kernel as a symbol of the library."""
    yield f'#include "{_DEVICE}"'
    yield '#line 1 "kernel.cu"'
    translated = _DYNAMIC.sub(r"\1 *\2 = (\1 *)emulated::dynamic_shared();", source)
    for instruction, replacement in _INSTRUCTIONS:
        translated = re.sub(instruction, replacement, translated)
    yield translated
    for threads, name in _KERNEL.findall(source):
        yield f"EMULATED_EXPORT({name}, {threads or 0})"


def _compile(command: Sequence[str]) -> None:
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    if ended.returncode != 0:
        raise EmulationError(f"{command[0]}: {ended.stderr[:4000]}")
