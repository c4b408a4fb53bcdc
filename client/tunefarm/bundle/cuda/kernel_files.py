"""The files of kernels for a GPU: CUDA source, device code, and C that launches it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tunefarm.bundle.cuda.nvcc import DeviceCode, GpuArchitecture, Nvcc
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.bundle import CudaRequirements
from tunefarm_schemas.tuning.target import Target
from tunefarm_workers.builder.cuda_source import CudaFunction, CudaSource, KernelLaunch
from tunefarm_workers.builder.model_source import KERNEL_PREFIX

RUNTIME: Final = Path(__file__).parent / "runtime"
"""The host part in C, for the runtime of bundles."""
REPLACED: Final = ("tunefarm_model.c", "tunefarm_bundle.c", "tunefarm_bundle.h")
"""Files of that runtime that run kernels of a processor."""
_IN_A_LINE: Final = 16


def gpu_architecture(target: Target) -> GpuArchitecture:
    """The architecture of a CUDA target. Raises BadInput."""
    return GpuArchitecture.named(str(json.loads(target.canonical).get("arch", "")))


def cuda_files(
    sources: Sequence[CudaSource], nvcc: Nvcc, architecture: GpuArchitecture, scratch: Path
) -> tuple[dict[str, bytes], CudaRequirements]:
    """The files of kernels by their paths, and what they need of a device.

    Raises:
        BadInput: the compiler failed.
    """
    files: dict[str, bytes] = {}
    shared_bytes = 0
    for number, source in enumerate(sources):
        folder = scratch / f"cuda{number}"
        folder.mkdir()
        code = nvcc.compiled(source.source, architecture, folder)
        shared_bytes = max(shared_bytes, *_shared_bytes(source, code))
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
    """The shared memory of a block, for each launch."""
    for function in source.functions:
        for launch in function.launches:
            if launch.kernel not in code.shared_bytes:
                problem = f"the CUDA compiler said nothing about {launch.kernel}."
                raise BadInput("cc", problem, "Name the nvcc of another CUDA toolkit.")
            yield code.shared_bytes[launch.kernel] + launch.dynamic_shared_bytes
