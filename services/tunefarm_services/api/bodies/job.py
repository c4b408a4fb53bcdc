"""The body that creates a job."""

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from tunefarm_schemas.tuning.device import HOT_CACHE
from tunefarm_schemas.tuning.input_spec import InputSpec
from tunefarm_schemas.tuning.job import JobKind, Strategy
from tunefarm_schemas.tuning.workload import Abi
from tunefarm_services.api.bodies.body import MODULE_EXAMPLE, Body, Identifier, Seconds, Shown, TargetText
from tunefarm_services.api.bodies.module import ModuleBody, TaskBody

Label: TypeAlias = Annotated[Shown, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00]+$")]
LabelValue: TypeAlias = Annotated[Shown, StringConstraints(max_length=500, pattern=r"^[^\x00]*$")]
TraceValue: TypeAlias = str | list[object]
"""A trace as TVM's ``Trace.as_json`` returns it, ``[instructions, decisions]``, or its JSON text."""

_OF_ONE_MODULE = ("module", "upload_id", "workload_id", "function", "all_functions", "name")


class EffortBody(Body):
    """Limits of the search, over all tasks. The first bound that is reached ends the job."""

    trials: int = Field(default=512, gt=0, le=10_000_000)
    seconds: Seconds | None = None
    plateau_trials: int | None = Field(default=None, gt=0, le=10_000_000)
    target_latency_s: Seconds | None = None
    device_seconds: Seconds | None = None


class SketchesBody(Body):
    """A custom space: traces whose decisions are left open."""

    sketches: list[TraceValue] = Field(min_length=1, max_length=64)


_EXAMPLES: Final = (
    {
        "module": MODULE_EXAMPLE,
        "target": {"kind": "llvm", "mcpu": "znver4", "num-cores": 2},
        "effort": {"trials": 256},
        "labels": {"model": "resnet"},
    },
    {
        "modules": [{"upload_id": "up_1", "all_functions": True}, {"workload_id": "ab12", "weight": 3}],
        "target": "x86-64-v3",
        "space": "auto",
    },
)


def _describe(schema: dict[str, Any]) -> None:
    """Describe both forms of a job in its schema."""
    single = ModuleBody.model_json_schema()["properties"]
    schema["properties"] |= {name: single[name] for name in _OF_ONE_MODULE}
    schema["required"].remove("modules")
    schema["oneOf"] = [{"required": [name]} for name in ("modules", "module", "upload_id", "workload_id")]
    schema["examples"] = list(_EXAMPLES)


class JobBody(Body):
    """A job for one or several modules. For a single module its fields may stand at the top level.

    Tasks of the job have the order of ``modules``; for ``measure`` there is exactly one task per module.
    """

    model_config = ConfigDict(json_schema_extra=_describe)

    kind: JobKind = "tune"
    modules: list[TaskBody] = Field(min_length=1)
    target: TargetText = None
    device_class_id: Identifier | None = None
    effort: EffortBody = EffortBody()
    space: Literal["auto"] | SketchesBody = "auto"
    seed_traces: list[TraceValue] = Field(default=[], max_length=64)
    strategy: Strategy = "evolutionary"
    abi: Abi = "stable"
    protocol_id: Shown = Field(default=HOT_CACHE.protocol_id, max_length=100)
    seed: int = Field(default=0, ge=0, lt=2**31)
    fresh: bool = Field(default=False, description="Ignore stored results.")
    priority: int = Field(default=0, ge=-100, le=100)
    deadline_s: Seconds | None = None
    labels: dict[Label, LabelValue] = Field(default={}, max_length=32)
    input_specs: list[InputSpec] = Field(default=[], max_length=64)
    of_model: bool = Field(
        default=False,
        description="The modules are the functions of one model, and their weights its calls per run: trials go where "
        "they are expected to save most of the model's time. Always so for a Relax module.",
    )
    model_upload_id: Identifier | None = Field(
        default=None,
        description="A complete upload of the model as TVM JSON, with its weights as constants. The job keeps it, so "
        "that bundles of the job have all of the model. A Relax module of this form is kept without it.",
    )

    @model_validator(mode="before")
    @classmethod
    def _single_module(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "modules" in value:
            return value
        single = {name: value[name] for name in _OF_ONE_MODULE if name in value}
        rest = {name: item for name, item in value.items() if name not in single}
        return {**rest, "modules": [single]}
