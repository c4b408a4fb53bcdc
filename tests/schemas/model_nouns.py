"""One complete example of every part of a compiled model and of a bundle."""

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.bundle import (
    BUNDLE_FORMAT,
    BundleEntry,
    BundleFile,
    BundleLatency,
    BundleManifest,
    BundleOrder,
    BundleRecord,
    BundleRequirements,
    BundleVector,
    CudaRequirements,
)
from tunefarm_schemas.tuning.dynamic_shape import DimensionPlace, DynamicDimension, DynamicShape, SizeBucket
from tunefarm_schemas.tuning.model import (
    MODEL_FORMAT,
    EntryUpdates,
    EntryWeights,
    ModelEntry,
    ModelFunction,
    ModelManifest,
    ModelRegion,
    ModelVerification,
)
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.workload import TensorArgument

_AT = "2026-01-02T03:04:05.000006+00:00"
_ARGUMENT = TensorArgument(name="A", shape=(1, 128), dtype="float16", is_output=False)
_DIMENSION = DynamicDimension(
    name="batch",
    sizes=(8,),
    inputs=(DimensionPlace(tensor=0, axis=0),),
    outputs=(DimensionPlace(tensor=0, axis=0, factor=2),),
    is_splittable=True,
    regret=0.04,
)
_DYNAMIC = DynamicShape(
    dimensions=(_DIMENSION,), buckets=(SizeBucket(sizes=(8,), entry="main@8"),), is_exact=False, padding={"mask": 1.0}
)
_FUNCTION = ModelFunction(name="fused_dense", workload_id="0a", calls=2, kind="record", record_id="0e", way="tiles")
_ENTRY = ModelEntry(name="main", inputs=(_ARGUMENT,), outputs=(_ARGUMENT,), is_tuple=False)
_ENTRY_WEIGHTS = EntryWeights(entry="main", weights=("dense.weight",))
_ENTRY_UPDATES = EntryUpdates(entry="main", inputs=("cache",))
_VERIFICATION = ModelVerification(reference="framework", input_sets=3, worst_error=0.01)
_REGION = ModelRegion(
    name="tunefarm.region.0",
    library="onnxruntime",
    requirement="onnxruntime==1.22.0",
    spins=False,
    file="region-0.onnx",
    digest="18",
    operators=("nn.conv2d", "nn.relu"),
)
_MODEL = (
    _FUNCTION,
    _REGION,
    _ENTRY,
    _ENTRY_UPDATES,
    _ENTRY_WEIGHTS,
    _VERIFICATION,
    ModelManifest(
        format=MODEL_FORMAT,
        name="network",
        framework="torch 2.13.0",
        tunefarm_version="0.1.0",
        tvm_version="0.27.0",
        code_generator="tvm-0.27.0+llvm-22.1",
        target="{}",
        num_cores=2,
        entries=(_ENTRY,),
        entry_weights=(_ENTRY_WEIGHTS,),
        functions=(_FUNCTION,),
        callees=("env.relu",),
        regions=(_REGION,),
        updated_inputs=(_ENTRY_UPDATES,),
        library="15",
        program="16",
        weights="17",
        verified=_VERIFICATION,
        dynamic=_DYNAMIC,
        created_at=_AT,
    ),
)

_FILE = BundleFile(path="kernels/kernel0.o", size_bytes=4096, digest="18")
_VECTOR = BundleVector(inputs=("vectors/0/input0.bin",), outputs=("vectors/0/output0.bin",))
_CUDA = CudaRequirements(
    architecture="sm_80", compute_capability="8.0", is_exact=False, driver_api="13.0", shared_memory_bytes=1536
)
_REQUIREMENTS = BundleRequirements(
    architecture="aarch64",
    cpu_features=("asimddp",),
    device_class_id="cortex-a76",
    libc="glibc 2.17",
    libraries=("libc.so.6",),
)
_LATENCY = BundleLatency(p50_s=0.012, p95_s=0.014, interval_s=(0.011, 0.015), protocol="cpu-hot-cache/1")
_RECORD = BundleRecord(
    record_id="19",
    trace="[[], []]",
    latency_s=0.001,
    interval_s=(0.0009, 0.0011),
    protocol_id="cpu-hot-cache/1",
    device_class_id="cortex-a76",
)
_BUNDLE_ENTRY = BundleEntry(constant="model_network_other", entry=_ENTRY, arena_bytes=64, vectors=(_VECTOR,))
_BUNDLE = (
    _FILE,
    _VECTOR,
    _REQUIREMENTS,
    _CUDA,
    _LATENCY,
    _RECORD,
    _BUNDLE_ENTRY,
    BundleManifest(
        format=BUNDLE_FORMAT,
        name="model_network",
        form="objects",
        target="{}",
        num_cores=4,
        framework="torch 2.13.0",
        code_generator="tvm-0.27.0+llvm-22.1",
        tunefarm_version="0.1.0",
        tvm_version="0.27.0",
        entry=_ENTRY,
        functions=(_FUNCTION,),
        weights_bytes=65536,
        arena_bytes=8192,
        vectors=(_VECTOR,),
        tolerance=0.001,
        files=(_FILE,),
        requires=_REQUIREMENTS,
        requires_cuda=_CUDA,
        latency=_LATENCY,
        records=(_RECORD,),
        sbom="sbom.cdx.json",
        others=(_BUNDLE_ENTRY,),
        fallbacks=(BundleRequirements(architecture="aarch64"),),
    ),
    BundleOrder(
        name="network",
        form="library",
        record_ids=("19",),
        job_id="20",
        upload_id="21",
        target=Target(canonical="{}", kind="llvm", num_cores=1),
    ),
)

MODEL_NOUNS: tuple[Frozen, ...] = (_DIMENSION.inputs[0], _DIMENSION, _DYNAMIC.buckets[0], _DYNAMIC, *_MODEL, *_BUNDLE)
