"""Creation of a bundle from the body of a request. It is built elsewhere: nothing of it is loaded here."""

from collections.abc import Sequence

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.bundle import WASM_TARGET, BundleForm, BundleOrder
from tunefarm_schemas.tuning.job import Job
from tunefarm_schemas.tuning.record import RecordStatus, TuningRecord
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.views.bundle import BundleView
from tunefarm_services.api.bodies.bundle import MAX_RECORDS, BundleBody
from tunefarm_services.api.bodies.module import ModuleBody
from tunefarm_services.api.operations.module_intake import module_text, target_question
from tunefarm_services.api.operations.parts import Parts
from tunefarm_services.jobs.job_records import records_of_job
from tunefarm_services.store.records.bundle_repository import BundleQuota


def create_bundle(parts: Parts, tenant: str, body: BundleBody, key: str | None) -> BundleView:
    """Queue a bundle. With ``key``, repeats of the request create only one.

    Raises:
        NotFound: a record, the job, the upload or a target does not exist.
        UploadIncomplete: not all of the model has arrived.
        BadInput: the model is not TVM's JSON, a record cannot be a part of a bundle, or the target is invalid.
        QuotaExceeded: the tenant has too many bundles.
    """
    quota = BundleQuota(parts.settings.open_bundles_per_tenant, parts.settings.tenant_bundle_bytes)
    parts.store.bundles.require_room(tenant, quota)
    job = None if body.job_id is None else parts.store.jobs.get(tenant, body.job_id)
    is_model = body.upload_id is not None or _is_model(parts, body, job)
    if body.upload_id is not None:
        module_text(parts, tenant, ModuleBody(upload_id=body.upload_id))
    elif not is_model:
        field = "record_ids" if body.record_ids else "job_id"
        records, has_target = _records(parts, tenant, body), body.target is not None or body.form == "wasm"
        _require_usable(records, field, has_target=has_target)
        if not has_target:
            _of_form(body.form, parts.store.targets.get(records[0].key.target_id, tenant=tenant))
    order = BundleOrder(
        name=body.name or ("network" if is_model else "functions"),
        form=body.form,
        record_ids=tuple(body.record_ids),
        job_id=body.job_id,
        upload_id=body.upload_id,
        target=_target(parts, tenant, body, job, is_model=is_model),
        is_model=is_model,
    )
    return parts.store.bundles.create(tenant, order, key, quota)


def _is_model(parts: Parts, body: BundleBody, job: Job | None) -> bool:
    """Whether the bundle has the model that a job keeps. Raises BadInput if it should and the job keeps none."""
    if job is None or not job.spec.of_model or body.functions_only:
        return False
    if parts.store.job_models.kept(job.tenant, job.job_id) is None:
        problem = "the job is of a model, and only the model's functions were sent."
        fix = (
            "Upload the model as TVM JSON with its weights as constants, and name the upload as upload_id; the command "
            "does so with --model FILE. Or set functions_only, for the functions without plan and weights."
        )
        raise BadInput("job_id", problem, fix)
    return True


def _records(parts: Parts, tenant: str, body: BundleBody) -> Sequence[TuningRecord]:
    if body.job_id is None:
        return [parts.store.records.get(tenant, each) for each in body.record_ids]
    found = records_of_job(parts.store, tenant, body.job_id)
    if not 0 < len(found) <= MAX_RECORDS:
        fix = f"Name a job whose tasks have from 1 to {MAX_RECORDS} verified records."
        raise BadInput("job_id", f"the job has {len(found)} verified records.", fix)
    return found


def _require_usable(records: Sequence[TuningRecord], field: str, *, has_target: bool) -> None:
    for each in records:
        if each.status is not RecordStatus.VERIFIED or each.key.abi != "stable":
            kind = each.status.value if each.key.abi == "stable" else "of the packed ABI"
            fix = "Name verified records of the stable ABI."
            raise BadInput(field, f"record {each.record_id} is {kind}.", fix)
    if len({each.key.workload_id for each in records}) < len(records):
        raise BadInput(field, "two records are of the same function.", "Name one of them.")
    if len({each.key.target_id for each in records}) > 1 and not has_target:
        raise BadInput(field, "the records have several targets.", "Name the target to compile for.")


def _target(parts: Parts, tenant: str, body: BundleBody, job: Job | None, *, is_model: bool) -> Target | None:
    if body.target is None and not is_model:
        return None
    if body.target is None and job is not None and body.form != "wasm":
        return _of_form(body.form, parts.store.targets.get(job.spec.tasks[0].target_id, tenant=tenant))
    given = WASM_TARGET if body.target is None and body.form == "wasm" else body.target
    question = target_question(parts, tenant, given)
    return _of_form(body.form, question if isinstance(question, Target) else parts.intake.target(question).target)


def _of_form(form: BundleForm, target: Target) -> Target:
    """``target``, if it is of the kind that bundles of ``form`` have code for. Raises BadInput."""
    kind, code, fix = (
        ("cuda", "GPUs", "Name a GPU, such as nvidia-a100.")
        if form == "cuda"
        else ("llvm", "processors", "Name a CPU, or the form cuda.")
    )
    if target.kind != kind:
        raise BadInput("target", f"bundles of the form {form} contain code of {code}, not of {target.kind}.", fix)
    return target
