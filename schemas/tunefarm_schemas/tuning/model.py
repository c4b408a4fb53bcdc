"""Compiled models."""

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.dynamic_shape import DynamicShape
from tunefarm_schemas.tuning.workload import TensorArgument

MODEL_FORMAT: Final = 2
"""Version of the manifest of a compiled model and of the files beside it."""

FunctionKind = Literal["record", "untried", "unscheduled"]
"""How a function was scheduled: as a record says, without a trial, or not by us: it is as the model has it."""


class ModelEntry(Frozen):
    """A function of a model that its users call.

    Attributes:
        name: of the function.
        inputs: its parameters without the weights, in order.
        outputs: the tensors of its result, in order; those of nested tuples one after the other.
        is_tuple: whether the result is a tuple.
    """

    name: str
    inputs: tuple[TensorArgument, ...]
    outputs: tuple[TensorArgument, ...]
    is_tuple: bool


class EntryWeights(Frozen):
    """The tensors of the weight file that an entry takes after its inputs, in order."""

    entry: str
    weights: tuple[str, ...]


class EntryUpdates(Frozen):
    """The inputs of an entry that a call can change into the results that take their places, by name."""

    entry: str
    inputs: tuple[str, ...]


class ModelFunction(Frozen):
    """One TIR function of a compiled model.

    Attributes:
        name: in the library.
        workload_id: of the task that it belongs to; None for functions that are not scheduled.
        calls: per run, summed over the entries.
        record_id: the record whose schedule it has; set if ``kind`` is ``record``.
        way: what an untried schedule was made by; empty otherwise.
    """

    name: str
    workload_id: str | None = None
    calls: int = 0
    kind: FunctionKind
    record_id: str | None = None
    way: str = ""


VerificationReference: TypeAlias = Literal["framework", "unscheduled", "unscheduled functions"]


class ModelVerification(Frozen):
    """What a compiled model was compared with.

    Attributes:
        reference: ``framework``; or ``unscheduled``, which is TVM's build of the same module without schedules; or
            ``unscheduled functions`` if each function of the model was compared with that of this build on the same
            arguments, because roundings to 8-bit integers add up over the model.
        input_sets: how many sets of inputs were compared.
        worst_error: the largest error relative to what is allowed; at most 1.
    """

    reference: VerificationReference
    input_sets: int
    worst_error: float


class ModelRegion(Frozen):
    """A part of a compiled model that a library runs.

    Attributes:
        name: of the function that the program calls.
        library: its name, such as ``onnxruntime``.
        requirement: the version that it was compiled and compared with, as pip's requirement.
        spins: whether the library's threads wait by spinning.
        file: the ONNX model beside the manifest. Its external data are in the weight file.
        digest: SHA-256 of that file.
        operators: what it computes, in order, such as ``nn.conv2d``.
    """

    name: Annotated[str, Field(pattern=r"^tunefarm\.region\.[0-9]{1,6}$")]
    library: str
    requirement: str
    spins: bool
    file: Annotated[str, Field(pattern=r"^region-[0-9]{1,6}\.onnx$")]
    digest: str
    operators: tuple[str, ...]


class ModelManifest(Frozen):
    """Describes a compiled model, so that it can be checked before it is loaded.

    ``library``, ``program`` and ``weights`` are the SHA-256 digests of the files beside it: the kernels, the bytecode
    that calls them, and the weights in the safetensors format.
    """

    format: int
    name: str
    framework: str
    tunefarm_version: str
    tvm_version: str
    code_generator: str
    target: str
    num_cores: int
    entries: tuple[ModelEntry, ...]
    entry_weights: tuple[EntryWeights, ...]
    functions: tuple[ModelFunction, ...]
    callees: tuple[str, ...] = ()
    """External functions that its user registers before it is loaded."""
    regions: tuple[ModelRegion, ...] = ()
    """Parts that libraries run. A model without any needs no library."""
    updated_inputs: tuple[EntryUpdates, ...] = ()
    """Of the entries whose program has a second function that updates inputs in place (``in_place_name``)."""
    library: str
    program: str
    weights: str
    verified: ModelVerification | None = None
    dynamic: DynamicShape | None = None
    """Dimensions with sizes that are known at a call; None if the entries have constant shapes only."""
    created_at: str
