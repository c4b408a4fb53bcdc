"""Bodies that query, publish and retract records."""

from pydantic import Field

from tunefarm_schemas.tuning.device import HOT_CACHE
from tunefarm_schemas.tuning.workload import Abi
from tunefarm_services.api.bodies.body import (
    DIGEST_EXAMPLE,
    MODULE_EXAMPLE,
    Body,
    Identifier,
    Name,
    Seconds,
    Shown,
    TargetText,
    Text,
    with_examples,
)
from tunefarm_services.api.bodies.job import TraceValue
from tunefarm_services.api.bodies.module import ModuleBody


class BestBody(ModuleBody):
    """The function to run and its target. ``device_class_id`` is optional if the farm has only one device class."""

    model_config = with_examples(
        {"module": MODULE_EXAMPLE, "target": "x86-64-v3"},
        {"workload_id": DIGEST_EXAMPLE, "target": {"kind": "llvm", "mcpu": "znver4", "num-cores": 2}, "limit": 1},
    )

    target: TargetText = None
    device_class_id: Identifier | None = None
    code_generator: Name | None = None
    protocol_id: Shown = Field(default=HOT_CACHE.protocol_id, max_length=100)
    abi: Abi = "stable"
    limit: int = Field(default=8, gt=0, le=100, description="Maximum number of answers per kind that is not exact.")


class PublishBody(ModuleBody):
    """A schedule with a claimed latency. It may seed searches and is never ``exact``."""

    model_config = with_examples(
        {
            "module": MODULE_EXAMPLE,
            "trace": [[["GetSBlock", [], ["matmul", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l1", "l2"]]], []],
            "latency_s": 0.000125,
            "target": {"kind": "llvm", "mcpu": "znver4", "num-cores": 2},
        }
    )

    trace: TraceValue
    latency_s: Seconds
    target: TargetText = None
    device_class_id: Identifier = "unknown"
    code_generator: Name = "unknown"
    protocol_id: Shown = Field(default="unknown", max_length=100)


class RetractBody(Body):
    """Why a record must not be used any more."""

    model_config = with_examples({"reason": "measured while the fan was broken"})

    reason: Text = Field(min_length=1)


class DatabaseBody(Body):
    """The text of both files of a TVM MetaSchedule JSON database."""

    model_config = with_examples(
        {
            "workloads": '["1184297437", "eyJyb290X2luZGV4IjogMTQ4fQ=="]\n',
            "records": '[0, [[[], []], [0.000125], {"kind": "llvm"}, [["TENSOR", "float32", [128]]]]]\n',
        }
    )

    workloads: str = Field(repr=False, description="Content of database_workload.json.")
    records: str = Field(repr=False, description="Content of database_tuning_record.json.")


class ExportBody(Body):
    """The records to export; by default all verified ones of the stable ABI."""

    model_config = with_examples(
        {"workload_id": DIGEST_EXAMPLE}, {"record_ids": ["aa6c9b35957f46f39df26b76216d06ca"], "include_claimed": True}
    )

    record_ids: list[Identifier] = Field(default=[], max_length=10_000)
    workload_id: Identifier | None = None
    target_id: Identifier | None = None
    include_claimed: bool = False
