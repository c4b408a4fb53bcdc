"""The files of a bundle in its form, and what they need of a device."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from tunefarm.bundle.cuda.kernel_files import cuda_files, cuda_runtime, gpu_architecture
from tunefarm.bundle.cuda.nvcc import CompileCuda, Nvcc
from tunefarm.bundle.link.compiled_files import COMPILED, compiled_files
from tunefarm.bundle.link.linking import Link
from tunefarm.bundle.link.toolchain import BundleToolchain, toolchain_for, wasm_toolchain
from tunefarm.bundle.messages import PlannedParts
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.bundle import BundleForm, BundleRequirements, CudaRequirements
from tunefarm_schemas.tuning.target import Target
from tunefarm_workers.builder.cuda_source import CudaSource

FormCompiler: TypeAlias = BundleToolchain | Nvcc | None
"""What compiles a bundle here: the whole of it, its kernels for a GPU, or nothing."""
_WASM_BYTES: Final = (1 << 32) - (64 << 20)
"""Memory of a 32-bit module, without some for code, stack and tensors."""
_WASM_BLOCK_BYTES: Final = (1 << 31) - (1 << 20)
"""The most that its allocator gives at once."""


@dataclass(frozen=True)
class FormFiles:
    """Files by their paths, with what they require of a device; None where nothing was compiled for one."""

    files: Mapping[str, bytes]
    requires: BundleRequirements | None = None
    requires_cuda: CudaRequirements | None = None


def compiler_of(form: BundleForm, target: Target, cc: str) -> FormCompiler:
    """The compiler that a form needs; ``cc`` is the user's.

    Raises:
        BadInput: there is none for the target.
    """
    if form == "cuda":
        gpu_architecture(target)
        return Nvcc.found(cc.strip())
    if form == "wasm":
        return wasm_toolchain(target, cc)
    return toolchain_for(target, cc) if form in COMPILED else None


def form_files(
    form: BundleForm,
    compiler: FormCompiler,
    kernels: Mapping[str, bytes],
    sources: Mapping[str, bytes],
    parts: PlannedParts,
    scratch: Path,
    link: Link,
    compile_cuda: CompileCuda,
) -> FormFiles:
    """Compile what the form has compiled.

    Args:
        form: of the bundle.
        compiler: that ``compiler_of`` gave for it.
        kernels: object files, C sources, or ``CudaSource`` as JSON, by their paths.
        sources: of the plan and the runtime.
        parts: what was planned.
        scratch: a folder for temporary files.
        link: links libraries and archives.
        compile_cuda: compiles kernels for a GPU.

    Raises:
        BadInput: the compiler or the linker failed.
    """
    if compiler is None:
        return FormFiles({**kernels, **sources})
    if form == "wasm":
        _require_addressable(parts)
    if isinstance(compiler, Nvcc):
        generated = [CudaSource.model_validate_json(each) for each in kernels.values()]
        architecture = gpu_architecture(parts.target)
        made, requires_cuda = cuda_files(generated, compiler, architecture, scratch, compile_cuda)
        return FormFiles(made | cuda_runtime(sources), requires_cuda=requires_cuda)
    files, requires = compiled_files(compiler, form, {**kernels, **sources}, parts.cpu_features, scratch, link)
    return FormFiles(files, requires)


def _require_addressable(parts: PlannedParts) -> None:
    arena_bytes = max(each.arena_bytes for each in parts.entries)
    needed = parts.weights_bytes + arena_bytes
    if needed > _WASM_BYTES or max(parts.weights_bytes, arena_bytes) > _WASM_BLOCK_BYTES:
        problem = f"its weights and intermediate tensors have {needed} bytes; a module has 32-bit addresses."
        raise BadInput("form", problem, "Use a smaller model, or another form.")
