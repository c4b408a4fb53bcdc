"""Asking for records, publishing them, and taking them back."""

from pydantic import Field

from tunefarm_schemas.device import HOT_CACHE
from tunefarm_schemas.workload import Abi
from tunefarm_services.api.bodies.body import Body, Identifier, Name, Seconds, TargetText, Text
from tunefarm_services.api.bodies.job import TraceValue
from tunefarm_services.api.bodies.module import ModuleBody


class BestBody(ModuleBody):
    """Which function is to be run where. ``device_class_id`` may be left out where the farm has one class only."""

    target: TargetText = None
    device_class_id: Identifier | None = None
    code_generator: Name | None = None
    protocol_id: str = Field(default=HOT_CACHE.protocol_id, max_length=100)
    abi: Abi = "stable"
    limit: int = Field(default=8, gt=0, le=100, description="Most answers of each kind that is not exact.")


class PublishBody(ModuleBody):
    """A schedule and the latency that somebody claims for it. It may seed searches and is never ``exact``."""

    trace: TraceValue
    latency_s: Seconds
    target: TargetText = None
    device_class_id: Identifier = "unknown"
    code_generator: Name = "unknown"
    protocol_id: str = Field(default="unknown", max_length=100)


class RetractBody(Body):
    """Why a record must not be used any more."""

    reason: Text = Field(min_length=1, examples=["measured while the fan was broken"])


class DatabaseBody(Body):
    """The text of both files of a TVM MetaSchedule JSON database."""

    workloads: str = Field(repr=False, description="Content of database_workload.json.")
    records: str = Field(repr=False, description="Content of database_tuning_record.json.")


class ExportBody(Body):
    """Which records to write; all verified ones of the stable ABI when nothing is said."""

    record_ids: list[Identifier] = Field(default=[], max_length=10_000)
    workload_id: Identifier | None = None
    target_id: Identifier | None = None
    include_claimed: bool = False
