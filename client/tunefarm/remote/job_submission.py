"""Calls that submit jobs, and the results of measurement jobs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tunefarm.http.calls.upload_calls import INLINE_BYTES, module_field, upload, with_modules
from tunefarm.http.request import Flow, Request
from tunefarm.remote.conversion import Conversion
from tunefarm.remote.job_options import RemoteJobOptions
from tunefarm.remote.measured_module import MeasuredModule
from tunefarm_schemas.frozen import JsonValue
from tunefarm_schemas.tuning.job import Job
from tunefarm_schemas.tuning.trace import Space
from tunefarm_schemas.views.jobs.job import NewJob
from tunefarm_schemas.views.quantities import failures_text

BODY_BYTES: Final = 8 << 20
"""The total size of modules sent in the body of a request; further modules are uploaded."""


def submission(conversion: Conversion, options: RemoteJobOptions, model: bytes | None = None) -> Flow[NewJob]:
    """Submit a tuning job. ``model`` is TVM's JSON of the whole model, which the job then keeps for bundles."""
    fields = yield from _module_fields([module.text for module in conversion.modules])
    modules: list[JsonValue] = []
    for module, field in zip(conversion.modules, fields, strict=True):
        task = dict(field)
        if module.name:
            task["name"] = module.name
        if conversion.of_model:
            task["weight"] = module.weight
        if conversion.function is not None:
            task["function"] = conversion.function
        if conversion.all_functions:
            task["all_functions"] = True
        modules.append(task)
    body: dict[str, JsonValue] = {
        "modules": modules,
        "effort": options.effort().model_dump(mode="json", exclude_none=True),
        "space": _space(conversion.space),
        "seed_traces": [trace.text for trace in conversion.seed_traces],
        "strategy": options.strategy,
        "abi": options.abi,
        "protocol_id": options.protocol_id,
        "seed": options.seed,
        "fresh": options.fresh,
        "priority": options.priority,
        "labels": options.labels,
        "input_specs": [spec.model_dump(mode="json", exclude_none=True) for spec in conversion.input_specs],
    }
    chosen: dict[str, JsonValue] = {
        "target": conversion.target,
        "device_class_id": options.device_class_id,
        "deadline_s": options.deadline_s,
    }
    body |= {name: value for name, value in chosen.items() if value is not None}
    if conversion.of_model:
        body["of_model"] = True
    if model is not None:
        sent: dict[str, JsonValue] = {"upload_id": (yield from upload(model))}
        body["model_upload_id"] = sent["upload_id"]
        fields = [*fields, sent]
    reply = yield from with_modules(fields, Request("POST", "/jobs", body=body, creates=True))
    return reply.read(NewJob)


def measurement_submission(
    modules: Sequence[str], target: str, *, device_class_id: str | None, labels: Mapping[str, str]
) -> Flow[NewJob]:
    """Submit a job that measures scheduled modules, given as TVM JSON, unchanged; duplicates are measured once."""
    fields = yield from _module_fields(list(dict.fromkeys(modules)))
    body: dict[str, JsonValue] = {
        "kind": "measure",
        "modules": [dict(field) for field in fields],
        "target": json.loads(target),
        "labels": dict(labels),
        "effort": {"trials": len(fields)},
    }
    if device_class_id is not None:
        body["device_class_id"] = device_class_id
    reply = yield from with_modules(fields, Request("POST", "/jobs", body=body, creates=True))
    return reply.read(NewJob)


def measurements(job: Job, summary: Mapping[str, Any], modules: Sequence[str]) -> list[MeasuredModule]:
    """The result of each of ``modules`` from the job's summary, in their order."""
    different = list(dict.fromkeys(modules))
    tasks = list(summary.get("tasks", ()))
    if len(tasks) != len(different):
        reason = job.message or f"the job is {job.outcome or job.state}"
        return [MeasuredModule(failure=f"not measured: {reason}")] * len(modules)
    found = dict(zip(different, map(_measured, tasks), strict=True))
    return [found[text] for text in modules]


def _module_fields(texts: Sequence[str]) -> Flow[list[Mapping[str, JsonValue]]]:
    inline_bytes = min(INLINE_BYTES, BODY_BYTES // max(1, len(texts)))
    fields: list[Mapping[str, JsonValue]] = []
    for text in texts:
        fields.append((yield from module_field(text, inline_bytes)))  # noqa: PERF401 - comprehensions cannot yield
    return fields


def _measured(task: Mapping[str, Any]) -> MeasuredModule:
    samples_s = tuple(float(each) for each in task.get("samples_s") or ())
    if not samples_s and task.get("best_latency_s"):
        samples_s = (float(task["best_latency_s"]),)
    if samples_s:
        return MeasuredModule(samples_s=samples_s)
    message = str(task.get("first_failure_message") or "").strip()
    return MeasuredModule(failure=message or failures_text(dict(task.get("failures") or {})) or "not measured")


def _space(space: Space) -> JsonValue:
    if space.automatic:
        return "auto"
    return {"sketches": [sketch.text for sketch in space.sketches]}
