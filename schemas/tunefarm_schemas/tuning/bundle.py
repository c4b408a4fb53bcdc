"""Bundles: models and functions for devices without TVM."""

from typing import Literal

from pydantic import Field

from tunefarm_schemas.edge.release import RUNTIME_ABI, Architecture
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.model import ModelEntry, ModelFunction
from tunefarm_schemas.tuning.target import Target

BUNDLE_FORMAT = 3
"""2 added what devices need, latencies, records and the bill of materials; 3 several entries and the layout."""
ALIGNMENT_BYTES = 64
BundleForm = Literal["c", "objects", "static", "library", "cuda", "wasm"]
"""Kernels as C sources or as object files for one processor, with sources of plan and runtime; or all of it compiled
for one processor, as an archive or as a shared library; or kernels as CUDA source and device code, with sources of the
host part; or all of it as a module for WebAssembly."""
WASM_TARGET = "wasm32-simd128"
"""What bundles of the form ``wasm`` are compiled for by default."""


class BundleFile(Frozen):
    """A file of a bundle, by its path from the bundle's folder. ``digest`` is its SHA-256."""

    path: str
    size_bytes: int
    digest: str


class BundleVector(Frozen):
    """Inputs of a model and what it computes for them, as files of the tensors' bytes, in the order of the entry's."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class BundleRequirements(Frozen):
    """What a device must have to run a compiled bundle.

    Attributes:
        architecture: of the machine code.
        cpu_features: instruction sets beyond the base of the architecture, as ``/proc/cpuinfo`` names them; of
            WebAssembly the features that an engine has, as LLVM names them.
        device_class_id: of the only device class that it is for; None for any.
        runtime_abi: of the library (``tunefarm_bundle.h``).
        libc: the least version, such as ``glibc 2.17``, or ``musl``; empty if it calls none, or for an archive.
        libraries: that the library is linked with.
    """

    architecture: Architecture
    cpu_features: tuple[str, ...] = ()
    device_class_id: str | None = None
    runtime_abi: int = RUNTIME_ABI
    libc: str = ""
    libraries: tuple[str, ...] = ()


class CudaRequirements(Frozen):
    """What a device must have to run kernels for NVIDIA GPUs.

    Attributes:
        architecture: that the kernels were compiled for, such as ``sm_80``.
        compute_capability: the least one, such as ``8.0``.
        is_exact: whether that is the only one, and GPUs with later ones lack instructions of the kernels.
        driver_api: the least CUDA version of the driver, such as ``13.0``.
        shared_memory_bytes: that a block of the largest kernel has.
    """

    architecture: str
    compute_capability: str
    is_exact: bool
    driver_api: str
    shared_memory_bytes: int


class BundleLatency(Frozen):
    """How long one run took where the bundle was measured, in seconds.

    ``interval_s`` holds the fastest and the slowest run; ``protocol`` says how it was measured.
    """

    p50_s: float = Field(gt=0, allow_inf_nan=False)
    p95_s: float = Field(gt=0, allow_inf_nan=False)
    interval_s: tuple[float, float]
    protocol: str


class BundleRecord(Frozen):
    """The record whose schedule functions of a bundle have.

    Attributes:
        record_id: as the functions name it.
        trace: the schedule, as TVM's JSON.
        latency_s, interval_s, protocol_id, device_class_id: how fast the function ran, how that was measured, and on
            what; ``interval_s`` is None if it was not taken.
    """

    record_id: str
    trace: str
    latency_s: float
    interval_s: tuple[float, float] | None
    protocol_id: str
    device_class_id: str


class BundleEntry(Frozen):
    """A function of a bundle: its constant in the sources, and what the manifest says of its first entry."""

    constant: str
    entry: ModelEntry
    arena_bytes: int
    vectors: tuple[BundleVector, ...] = ()


class BundleManifest(Frozen):
    """Describes a bundle: all of its files but the manifest itself.

    Attributes:
        format: of the manifest.
        name: of the model, an identifier of C: the constant in the sources, or its beginning if there are ``others``.
        form: of the kernels.
        target: canonical JSON of what kernels were scheduled for, and compiled for unless they are C.
        num_cores: the number of threads that it was scheduled for.
        framework: what wrote the model.
        code_generator: what compiled or generated the kernels.
        tunefarm_version, tvm_version: of this build.
        entry: inputs and outputs.
        functions: how each kernel was scheduled.
        weights_bytes: of the file of the weights, and of the memory that it is read to.
        arena_bytes: memory for intermediate tensors.
        vectors: for a self-test.
        tolerance: by how much outputs may differ, relative to the largest element of each; floats of 16 bits by four
            times as much. Types without a fraction are equal.
        others: the entries after the first, in the order of the library's table.
        layout: of all inputs and outputs: contiguous, the last axis varies fastest.
        alignment_bytes: of all inputs and outputs, the weights and the arena.
        files: in order of their paths.
        requires: of a device; None for sources and object files.
        requires_cuda: of a GPU; None for kernels of a processor.
        fallbacks: what devices must have for the bundles that were built beside it, the best first: those that do not
            have what this one requires get the first of these whose requirements they meet.
        latency: of a run of the whole model; None if it was not measured.
        records: of the functions whose schedule a record gave, in order of their ids.
        sbom: path of the bill of materials, in CycloneDX; None if there is none.
    """

    format: int
    name: str
    form: BundleForm
    target: str
    num_cores: int
    framework: str
    code_generator: str
    tunefarm_version: str
    tvm_version: str
    entry: ModelEntry
    functions: tuple[ModelFunction, ...]
    weights_bytes: int
    arena_bytes: int
    vectors: tuple[BundleVector, ...]
    tolerance: float
    files: tuple[BundleFile, ...]
    requires: BundleRequirements | None = None
    requires_cuda: CudaRequirements | None = None
    latency: BundleLatency | None = None
    records: tuple[BundleRecord, ...] = ()
    sbom: str | None = None
    others: tuple[BundleEntry, ...] = ()
    layout: Literal["row_major"] = "row_major"
    alignment_bytes: int = ALIGNMENT_BYTES
    fallbacks: tuple[BundleRequirements, ...] = ()


class BundleOrder(Frozen):
    """A bundle to build of stored records, those of ``record_ids`` or of the tasks of ``job_id``, or of a model.

    ``upload_id`` has the model, as TVM's JSON with its weights as constants; without one, ``is_model`` says that the
    job keeps it. ``name`` becomes a part of identifiers. ``target`` is what to compile for; None for the target of the
    records.
    """

    name: str
    form: BundleForm
    record_ids: tuple[str, ...] = ()
    job_id: str | None = None
    upload_id: str | None = None
    target: Target | None = None
    is_model: bool = False
