"""The files of kernels for a GPU: CUDA source, device code, and C that launches it."""

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tunefarm.bundle.cuda.nvcc import CompileCuda, DeviceCode, GpuArchitecture, Nvcc
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.host_cores import usable_physical_cores
from tunefarm_schemas.tuning.bundle import CudaRequirements
from tunefarm_schemas.tuning.target import Target
from tunefarm_workers.builder.cuda_source import CudaFunction, CudaSource, KernelLaunch
from tunefarm_workers.builder.model_source import KERNEL_PREFIX

RUNTIME: Final = Path(__file__).parent / "runtime"
"""The host part in C, for the runtime of bundles."""
REPLACED: Final = ("tunefarm_model.c", "tunefarm_bundle.c", "tunefarm_bundle.h")
"""Files of that runtime that run kernels of a processor."""
MAX_IMAGE_BYTES: Final = 16 << 20
"""Of the device code of one function."""
_IN_A_LINE: Final = 16
_FAT_BINARY: Final = struct.Struct("<IHHQ")
"""The header of a fat binary: its magic, its version, its own size, and that of what follows."""
_MAGIC: Final = 0xBA55ED50
_MAX_SHARED_BYTES: Final = 1 << 20
"""Of one block; the largest GPUs have a quarter of it."""
_OTHER_NVCC: Final = "Name the nvcc of another CUDA toolkit."


def gpu_architecture(target: Target) -> GpuArchitecture:
    """The architecture of a CUDA target. Raises BadInput."""
    return GpuArchitecture.named(str(json.loads(target.canonical).get("arch", "")))


def cuda_files(
    sources: Sequence[CudaSource],
    nvcc: Nvcc,
    architecture: GpuArchitecture,
    scratch: Path,
    compile_cuda: CompileCuda = Nvcc.compiled,
) -> tuple[dict[str, bytes], CudaRequirements]:
    """The files of kernels by their paths, and what they need of a device.

    Args:
        sources: each of a function.
        nvcc: the compiler.
        architecture: of the GPU.
        scratch: a folder for temporary files.
        compile_cuda: runs the compiler. What it returns is checked.

    Raises:
        BadInput: the compiler failed, or made something else than was asked for.
    """
    folders = [scratch / f"cuda{number}" for number in range(len(sources))]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(usable_physical_cores()) as threads:
        made = threads.map(
            lambda source, folder: compile_cuda(nvcc, source.source, architecture, folder), sources, folders
        )
        codes = list(made)
    files: dict[str, bytes] = {}
    shared_bytes = 0
    for number, (source, code) in enumerate(zip(sources, codes, strict=True)):
        _require_fat_binary(code.image)
        shared_bytes = max([shared_bytes, *_shared_bytes(source, code)])
        files[f"kernels/kernel{number}.cu"] = source.source.encode()
        files[f"kernels/kernel{number}.fatbin"] = code.image
        files[f"kernels/kernel{number}.c"] = launching_source(source, code.image, nvcc, architecture).encode()
    requires = CudaRequirements(
        architecture=architecture.name,
        compute_capability=f"{architecture.major}.{architecture.minor}",
        is_exact=architecture.is_exact,
        driver_api=f"{nvcc.driver_major}.{nvcc.driver_minor}",
        shared_memory_bytes=shared_bytes,
    )
    return files, requires


def cuda_runtime(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The runtime of a bundle with the host part of a GPU in place of what runs kernels of a processor."""
    left_out = {f"runtime/{name}" for name in REPLACED}
    own = {path.name: path.read_bytes() for path in sorted(RUNTIME.iterdir()) if path.is_file()}
    added = {name if name == "CMakeLists.txt" else f"runtime/{name}": content for name, content in own.items()}
    return {name: content for name, content in files.items() if name not in left_out} | added


def launching_source(source: CudaSource, image: bytes, nvcc: Nvcc, architecture: GpuArchitecture) -> str:
    """C with device code as constant bytes, and a function of the type ``TunefarmKernel`` for each function."""
    driver = nvcc.driver_major * 1000 + nvcc.driver_minor * 10
    needs = f"{architecture.major}, {architecture.minor}, {int(architecture.is_exact)}, {driver}"
    lines = ['#include "tunefarm_cuda.h"', "", "static _Alignas(16) const unsigned char image[] = {", *_bytes(image)]
    lines += ["};", f"static TunefarmCudaModule module = {{image, {needs}, NULL, NULL, 0}};"]
    for number, function in enumerate(source.functions):
        lines += ["", *_function(function, f"f{number}_")]
    return "\n".join([*lines, ""])


def _function(function: CudaFunction, prefix: str) -> Iterator[str]:
    for number, launch in enumerate(function.launches):
        numbers = ", ".join(map(str, launch.arguments))
        yield f"static const int32_t {prefix}arguments{number}[] = {{{numbers}}};"
    yield f"static TunefarmCudaLaunch {prefix}launches[] = {{"
    for number, launch in enumerate(function.launches):
        yield f"  {_launch(launch, f'{prefix}arguments{number}')},"
    yield "};"
    sizes = ", ".join(map(str, function.workspaces_bytes))
    yield f"static const uint64_t {prefix}workspaces[] = {{{sizes or '0'}}};"
    yield f"static uint64_t {prefix}addresses[{max(len(function.workspaces_bytes), 1)}];"
    yield f"static TunefarmCudaFunction {prefix}function = {{"
    yield f"  &module, {function.tensors}, {len(function.workspaces_bytes)}, {len(function.launches)},"
    yield f"  {prefix}workspaces, {prefix}addresses, {prefix}launches, 0,"
    yield "};"
    name = f"{KERNEL_PREFIX}{function.name}"
    yield f"int32_t {name}(void *session, void *arguments, int32_t count, void *result);"
    yield f"int32_t {name}(void *session, void *arguments, int32_t count, void *result) {{"
    yield "  (void)result;"
    yield f"  return tunefarm_cuda_call(&{prefix}function, session, arguments, count);"
    yield "}"


def _launch(launch: KernelLaunch, arguments: str) -> str:
    grid, block = (", ".join(map(str, each)) for each in (launch.grid, launch.block))
    sizes = f"{{{grid}}}, {{{block}}}, {launch.dynamic_shared_bytes}"
    return f'{{"{launch.kernel}", {sizes}, {len(launch.arguments)}, {arguments}, NULL}}'


def _bytes(content: bytes) -> Iterator[str]:
    for at in range(0, len(content), _IN_A_LINE):
        yield "  " + ", ".join(map(str, content[at : at + _IN_A_LINE])) + ","


def _shared_bytes(source: CudaSource, code: DeviceCode) -> Iterator[int]:
    """The shared memory of a block, for each launch. Kernels that are not launched are of no interest."""
    for function in source.functions:
        for launch in function.launches:
            declared = code.shared_bytes.get(launch.kernel)
            if declared is None:
                raise BadInput("cc", f"the CUDA compiler said nothing about {launch.kernel}.", _OTHER_NVCC)
            if not 0 <= declared <= _MAX_SHARED_BYTES:
                problem = f"the CUDA compiler said that {launch.kernel} has {declared} bytes of shared memory."
                raise BadInput("cc", problem, _OTHER_NVCC)
            yield declared + launch.dynamic_shared_bytes


def _require_fat_binary(image: bytes) -> None:
    if len(image) > MAX_IMAGE_BYTES:
        problem = f"the device code of a function has {len(image)} bytes, and at most {MAX_IMAGE_BYTES} are kept."
        raise BadInput("source", problem, "Use another schedule, with less unrolling.")
    magic, _, header_bytes, body_bytes = _FAT_BINARY.unpack_from(image.ljust(_FAT_BINARY.size, b"\0"))
    if magic != _MAGIC or header_bytes + body_bytes != len(image):
        raise BadInput("cc", "the CUDA compiler wrote something else than a fat binary.", _OTHER_NVCC)
