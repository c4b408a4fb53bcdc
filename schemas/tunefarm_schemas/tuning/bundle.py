"""Bundles: models for devices without TVM."""

from typing import Literal

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.model import ModelEntry, ModelFunction

BUNDLE_FORMAT = 1
BundleForm = Literal["c", "objects"]
"""How the kernels are given: as C sources, or as object files for one processor."""


class BundleFile(Frozen):
    """A file of a bundle, by its path from the bundle's folder. ``digest`` is its SHA-256."""

    path: str
    size_bytes: int
    digest: str


class BundleVector(Frozen):
    """Inputs of a model and what it computes for them, as files of the tensors' bytes, in the order of the entry's."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class BundleManifest(Frozen):
    """Describes a bundle: all of its files but the manifest itself.

    Attributes:
        format: of the manifest.
        name: of the model, an identifier of C: the constant in the sources.
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
        vectors: for a self-test. Outputs may differ by ``tolerance`` times the largest element of each.
        files: in order of their paths.
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
