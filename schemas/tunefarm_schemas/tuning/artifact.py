"""Compiled output."""

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.input_spec import InputSpec
from tunefarm_schemas.tuning.workload import Abi, TensorArgument


class ArtifactManifest(Frozen):
    """Describes a compiled library, so that it can be checked before it is loaded.

    ``library_digest`` is the SHA-256 of the shared library next to the manifest.
    """

    schema_version: int
    artifact_id: str
    record_id: str
    workload_id: str
    workload_name: str
    arguments: tuple[TensorArgument, ...]
    target: str
    num_cores: int
    device_class_id: str
    code_generator: str
    protocol_id: str
    abi: Abi
    entry: str
    pack_entry: str | None
    packed_arguments: tuple[TensorArgument, ...]
    """The packed constants that ``entry`` accepts instead of the plain ones, if the ABI is packed."""
    trace_id: str
    latency_s: float
    interval_s: tuple[float, float] | None
    library_digest: str
    library_name: str
    created_at: str
    input_specs: tuple[InputSpec, ...] = ()
    """The contents of the arguments when the library was verified."""
