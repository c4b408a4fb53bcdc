"""Children that compile for a device without access to it."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import tvm

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.host_cores import usable_processors
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import host_cpu
from tunefarm_workers.builder.linker import link_kernel, linker_command
from tunefarm_workers.builder.shipped_module import ship
from tunefarm_workers.child.candidate import broken
from tunefarm_workers.conversation.messages import Broken
from tunefarm_workers.session.device.default_schedule import scheduled_for
from tunefarm_workers.session.device.device_target import device_target
from tunefarm_workers.session.device.reference_library import reference_module
from tunefarm_workers.session.device.session_messages import (
    BuildOrder,
    HostFacts,
    LibraryBuilt,
    LibraryShape,
    ReferenceBuildOrder,
    ReferencesBuilt,
    Toolchain,
)

_NOT_COMPILED: Final = (
    "TVM generated source for the device, and did not compile it. It compiles CUDA only where its CUDA runtime can be "
    "loaded, which needs libcudart.so.13 of the CUDA toolkit and libcuda.so.1 of NVIDIA's driver."
)


class NotCompiled(Exception):
    """Raised for a library without code for the device."""


def run(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - the shape of an entry
    """Entry: answer with ``LibraryBuilt`` and the library's bytes, or with ``Broken``."""
    order = BuildOrder.model_validate_json(payload)
    began_s = time.perf_counter()
    stage = FailureReason.INVALID_SCHEDULE
    try:
        os.environ.update(order.toolchain.environment)
        target = device_target(order.target, order.toolchain)
        scheduled = scheduled_for(load_json(order.module_json), order.trace, target, order.callees)
        stage = FailureReason.BUILD_ERROR
        shipped = ship(scheduled, order.abi)
        library = library_of(shipped.module, target, Path(order.folder), order.toolchain)
    except Exception as error:  # noqa: BLE001 - an error of a schedule is its result
        _send(channel, broken(stage, error))
        return
    shape = LibraryShape(
        entry=shipped.entry, pack_entry=shipped.pack_entry, packed=tuple(sorted(shipped.packed.items()))
    )
    _send(channel, LibraryBuilt(shape=shape, build_s=time.perf_counter() - began_s))
    channel.send(library)


def run_references(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - as above
    """Entry: answer with ``ReferencesBuilt`` and the library's bytes, or with ``Broken``."""
    order = ReferenceBuildOrder.model_validate_json(payload)
    try:
        os.environ.update(order.toolchain.environment)
        target = device_target(order.target, order.toolchain)
        module = reference_module(target, order.threads)
        library = library_of(module, target, Path(order.folder), order.toolchain)
    except Exception as error:  # noqa: BLE001 - the answer carries the error
        _send(channel, broken(FailureReason.BUILD_ERROR, error))
        return
    _send(channel, ReferencesBuilt(code_generator=_code_generator(order.toolchain)))
    channel.send(library)


def run_facts(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - as above
    """Entry: answer with ``HostFacts``; the payload is the toolchain."""
    facts = HostFacts(
        code_generator=_code_generator(Toolchain.model_validate_json(payload)),
        host_target=f'{{"kind":"llvm","mcpu":"{host_cpu()}","num-cores":{usable_processors()}}}',
    )
    channel.send(facts.model_dump_json().encode())


def library_of(module: tvm.IRModule, target: Any, folder: Path, toolchain: Toolchain) -> bytes:
    """The bytes of a shared library with the compiled functions of ``module``, linked in ``folder``.

    Raises:
        NotCompiled: TVM left it to the host of the device to compile the kernels, with whatever compiler that has.
        TVM's errors, LinkFailed.
    """
    library = folder / "kernel.so"

    def link_objects(name: str, objects: Sequence[str], **_: Any) -> None:
        link_kernel(linker_command(toolchain.linker), Path(name), objects, toolchain.linker_flags, folder)

    with target:
        built = tvm.tirx.build(module, target=target)
    if not all(each.is_runnable() for each in built.imports):
        raise NotCompiled(_NOT_COMPILED)
    built.export_library(str(library), fcompile=link_objects, workspace_dir=str(folder))
    return library.read_bytes()


def _code_generator(toolchain: Toolchain) -> str:
    compiler = f"+{toolchain.compiler}" if toolchain.compiler else ""
    return f"tvm-{tvm.__version__}+llvm-{tvm.target.codegen.llvm_version_major()}{compiler}"


def _send(channel: Channel, message: LibraryBuilt | ReferencesBuilt | Broken) -> None:
    channel.send(message.model_dump_json().encode())
