"""Creation of a job from the body of a request."""

from collections.abc import Sequence
from typing import Final

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.device import PROTOCOLS
from tunefarm_schemas.tuning.input_spec import InputSpec
from tunefarm_schemas.tuning.job import Effort, Job, JobSpec, require_space_for
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space
from tunefarm_schemas.tuning.workload import Task
from tunefarm_services.api.bodies.job import EffortBody, JobBody, SketchesBody
from tunefarm_services.api.bodies.module import ModuleBody
from tunefarm_services.api.intake.intake_messages import ModuleAnswer
from tunefarm_services.api.operations.lane_fit import notes_on
from tunefarm_services.api.operations.module_intake import module_text, target_question, trace_text, understood
from tunefarm_services.api.operations.parts import Parts
from tunefarm_services.jobs.lane_fit import require_lane
from tunefarm_services.store import NotFound

MAX_REPEATS: Final = 2


def create_job(parts: Parts, tenant: str, body: JobBody, key: str | None) -> tuple[Job, tuple[str, ...]]:
    """Read the request and queue the job. With ``key``, repeats of the request create only one job.

    Returns:
        The job, and notes on how its target was interpreted and what it waits for.

    Raises:
        BadInput, NotFound: the body refers to something that cannot be used.
        QuotaExceeded: the tenant has too many open jobs.
    """
    _require_plain(parts, body)
    parts.store.jobs.require_room(tenant, parts.settings.open_jobs_per_tenant)
    sketches = body.space.sketches if isinstance(body.space, SketchesBody) else []
    answer = understood(
        parts,
        tenant,
        body.modules,
        target_question(parts, tenant, body.target),
        sketches=[trace_text(each) for each in sketches],
        seed_traces=[trace_text(each) for each in body.seed_traces],
        of_model=body.of_model and not body.input_specs,
    )
    assert answer.target is not None
    lanes = parts.store.lanes.find()
    require_lane(lanes, answer.target, body.device_class_id, deadline_s=body.deadline_s)
    spec = _spec(body, answer, answer.target, parts.settings.callees.get(tenant, ()))
    model, notes = _kept_model(parts, tenant, body, answer)
    job = _queued(parts, tenant, spec, answer, model, key)
    return job, (*answer.notes, *notes, *notes_on(job, lanes, answer.target, answer.notes))


def _queued(
    parts: Parts, tenant: str, spec: JobSpec, answer: ModuleAnswer, model: bytes | None, key: str | None
) -> Job:
    """Store the target and the workloads, and queue the job.

    The deletion of another job removes workloads that no job needs yet, so they are stored again if one is missing.
    """
    assert answer.target is not None
    target, workloads = answer.target, {each.workload.workload_id: each.workload for each in answer.workloads}

    def queue() -> Job:
        parts.store.targets.put(tenant, target)
        for workload in workloads.values():
            parts.store.workloads.put(tenant, workload)
        most_open = parts.settings.open_jobs_per_tenant
        return parts.store.jobs.create(tenant, spec, model=model, key=key, most_open=most_open)

    for _ in range(MAX_REPEATS):
        try:
            return queue()
        except NotFound as missing:
            if missing.noun != "workload":
                raise
    return queue()


def _kept_model(parts: Parts, tenant: str, body: JobBody, answer: ModuleAnswer) -> tuple[bytes | None, tuple[str, ...]]:
    """The model that bundles of the job are built from, if it was sent with its weights; a note if there is no room."""
    if body.model_upload_id is not None:
        sent = module_text(parts, tenant, ModuleBody(upload_id=body.model_upload_id))
    elif answer.has_weights:
        sent = module_text(parts, tenant, body.modules[0])
    else:
        return None, ()
    content = sent.module_json.encode()
    kept_bytes = parts.store.job_models.kept_bytes(tenant)
    if kept_bytes + len(content) > parts.settings.tenant_model_bytes:
        note = f"the model is not kept with the job: the jobs of the tenant keep {kept_bytes} bytes of models"
        return None, (f"{note}; a bundle of the job needs an upload of the model",)
    return content, ()


def _spec(body: JobBody, answer: ModuleAnswer, target: Target, callees: tuple[str, ...]) -> JobSpec:
    of_model = body.of_model or answer.of_model
    _require_model_job(body, of_model=of_model)
    tasks = _tasks(answer, target, merged=body.kind == "tune")
    effort = body.effort
    if body.kind == "measure":
        effort = effort.model_copy(update={"trials": len(tasks)})
    space = Space(automatic=False, sketches=answer.sketches) if answer.sketches else Space()
    require_space_for(body.strategy, space)
    return JobSpec(
        tasks=tasks,
        effort=_effort(effort),
        strategy=body.strategy,
        space=space,
        seed_traces=answer.seed_traces,
        protocol_id=body.protocol_id,
        abi=body.abi,
        seed=body.seed,
        fresh=body.fresh,
        priority=body.priority,
        labels=body.labels,
        device_class_id=body.device_class_id,
        kind=body.kind,
        deadline_s=body.deadline_s,
        input_specs=tuple(body.input_specs),
        of_model=of_model,
        callees=callees,
        untuned_functions=answer.untuned_functions,
    )


def _tasks(answer: ModuleAnswer, target: Target, *, merged: bool) -> tuple[Task, ...]:
    """Create a task for each workload. Tunes a repeated function once, with the sum of its weights."""
    tasks = [
        Task(
            workload_id=each.workload.workload_id,
            target_id=target.target_id,
            name=each.workload.name,
            weight=each.weight,
        )
        for each in answer.workloads
    ]
    if not merged:
        return tuple(tasks)
    by_workload: dict[str, Task] = {}
    for task in tasks:
        known = by_workload.get(task.workload_id)
        by_workload[task.workload_id] = (
            task if known is None else known.model_copy(update={"weight": known.weight + task.weight})
        )
    return tuple(by_workload.values())


def _require_model_job(body: JobBody, *, of_model: bool) -> None:
    if body.model_upload_id is not None and not of_model:
        raise BadInput("model_upload_id", "the modules are not those of a model.", "Omit it, or set of_model.")
    if of_model and body.kind == "measure":
        raise BadInput("kind", "a model is not one schedule to measure.", "Use tune, or send scheduled functions.")
    if of_model and body.abi == "packed":
        raise BadInput("abi", "the functions of a model take its weights as they are.", "Use stable.")


def _effort(body: EffortBody) -> Effort:
    return Effort.model_validate(body.model_dump())


def _require_plain(parts: Parts, body: JobBody) -> None:
    if len(body.modules) > parts.settings.modules_per_job:
        fix = f"Send at most {parts.settings.modules_per_job} in one job."
        raise BadInput("modules", f"there are {len(body.modules)} of them.", fix)
    if body.protocol_id not in PROTOCOLS:
        raise BadInput("protocol_id", "it is not known.", f"Use one of: {', '.join(PROTOCOLS)}.")
    if body.strategy == "replay":
        raise BadInput("strategy", "replay has no recorded measurements here.", "Use evolutionary, random or tvm.")
    if body.kind == "measure" and (body.seed_traces or isinstance(body.space, SketchesBody)):
        raise BadInput("kind", "a measure job searches nothing.", "Omit space and seed_traces, or use tune.")
    _require_no_examples(body.input_specs)


def _require_no_examples(specs: Sequence[InputSpec]) -> None:
    if any(spec.kind == "example" for spec in specs):
        fix = "Use normal, positive, uniform or integers with a range."
        raise BadInput("input_specs", "only tunefarm tune accepts example arrays.", fix)
