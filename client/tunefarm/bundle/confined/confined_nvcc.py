"""Compiles kernels for GPUs in a confined child: CUDA source of others may attack or read the compiler's host."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tunefarm.bundle.confined.confined_program import ProgramOrder, answer_made, answer_of_program
from tunefarm.bundle.cuda.nvcc import DeviceCode, GpuArchitecture, Nvcc
from tunefarm.model.builders import own_folder
from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.frozen import Frozen

_ENTRY: Final = "tunefarm.bundle.confined.confined_nvcc:main"
_SOURCE: Final = "kernels.cu"
_OF_TOOLKITS: Final = ("bin", "include", "lib", "lib64", "nvvm", "targets")
"""The folders of a toolkit that the compiler needs. What else is beside them may be anything, such as a home."""
_HOST_COMPILERS: Final = ("gcc", "g++")


class NvccOrder(ProgramOrder):
    """One source to compile. The fields are those of ``Nvcc`` and ``GpuArchitecture``."""

    nvcc: Nvcc
    architecture: GpuArchitecture


class CudaCompiled(Frozen):
    """Precedes a fat binary. ``shared_bytes`` are those of ``DeviceCode``."""

    shared_bytes: Mapping[str, int]


@dataclass(frozen=True)
class ConfinedNvcc:
    """Compiles as ``Nvcc.compiled`` does, in a child that reads the toolkit, the system's compiler and the source."""

    fork_server: ForkServer

    def __call__(self, nvcc: Nvcc, source: str, architecture: GpuArchitecture, folder: Path) -> DeviceCode:
        """What ``Nvcc.compiled`` returns. ``folder`` is empty. Raises BadInput."""
        own, toolkit = own_folder(folder, "confined"), nvcc.toolkit
        # Not the program that was found, which may be a script in a folder of which the child needs nothing else.
        nvcc = replace(nvcc, path=str(toolkit / "bin/nvcc"))
        order = NvccOrder(nvcc=nvcc, architecture=architecture, names=(_SOURCE,), folder=str(own))
        files, programs = {_SOURCE: source.encode()}, tuple(_programs(toolkit))
        answer, image = answer_of_program(
            self.fork_server, _ENTRY, order, files, CudaCompiled, programs=programs, doing="compiling"
        )
        return DeviceCode(image, dict(answer.shared_bytes))


def main(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - the shape of an entry
    """Entry: answer one ``NvccOrder`` with ``CudaCompiled`` and the fat binary."""
    order = NvccOrder.model_validate_json(payload)

    def compiled(files: Mapping[str, bytes], work: Path) -> tuple[CudaCompiled, bytes]:
        code = order.nvcc.compiled(files[_SOURCE].decode(), order.architecture, work)
        return CudaCompiled(shared_bytes=code.shared_bytes), code.image

    answer_made(channel, order, compiled)


def _programs(toolkit: Path) -> Iterator[str]:
    """Folders of the toolkit, and of the C++ compiler that it runs, which need not be among the system's."""
    for name in _OF_TOOLKITS:
        yield str(toolkit / name)
    for name in _HOST_COMPILERS:
        path = shutil.which(name)
        if path is not None:
            yield str(Path(path).resolve().parent)
