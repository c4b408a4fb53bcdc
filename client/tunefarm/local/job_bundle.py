"""The model of a job of this machine's store, for a bundle."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tunefarm.bundle.bundle_source import ModelSource, identifier
from tunefarm.frontend.model_file import model_file
from tunefarm.frontend.model_import import ImportedModel
from tunefarm.intake.module_source import parse_module_source
from tunefarm.local.machine import LocalMachine
from tunefarm.local.model_job import ModelJob
from tunefarm.local.model_records import records_of
from tunefarm.model.compilation import Records
from tunefarm.model.function_orders import ChosenRecord
from tunefarm.model.messages import PreparedTask
from tunefarm.options.model_options import ModelOptions
from tunefarm.terminal.resume_option import module_of
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.bundle import WASM_TARGET, BundleForm
from tunefarm_schemas.tuning.job import Job
from tunefarm_schemas.tuning.target import Target
from tunefarm_services.store import LOCAL_TENANT

FIELD: Final = "source"
UNNAMED: Final = "network"
_FIX: Final = "Give its file: --model FILE. Or take --functions-only, for the functions without plan and weights."


@dataclass(frozen=True)
class JobModel:
    """A model of a job, and a name for its bundle."""

    source: ModelSource
    name: str


def model_of_job(
    machine: LocalMachine, job: Job, file: str | None, target: str, form: BundleForm, entry: str | None
) -> JobModel:
    """The model of ``job``: from ``file``, else the one that the job keeps, else from the file that it was read from.

    Args:
        machine: whose store has the job.
        job: of a model.
        file: as typed; None for the job's own.
        target: as typed; empty for that of the job, or of WebAssembly.
        form: of the bundle.
        entry: one of the model's functions; None for the only one or ``main``.

    Raises:
        BadInput: the model is not there, cannot be read, or is not the one that the job tuned.
    """
    tuned_for = machine.store.targets.get(job.spec.tasks[0].target_id)
    wanted = target or (WASM_TARGET if form == "wasm" else tuned_for.canonical)
    records = _of_job(machine, job, tuned_for)
    if file is None and machine.store.job_models.kept(LOCAL_TENANT, job.job_id) is not None:
        kept = machine.store.job_models.content(LOCAL_TENANT, job.job_id).decode(errors="replace")
        model = ImportedModel(kept, {}, "tvm", ())
        name = _name_of(job.spec.labels.get("module", UNNAMED))
        return JobModel(ModelSource(model, wanted, records, entry, is_foreign=True), name)
    text = file or _file_of(job)
    source = model_file(text)
    read = ModelJob(machine, source or parse_module_source(text), ModelOptions.of_labels(job.spec.labels))
    read.as_module(tuned_for.canonical)
    return JobModel(ModelSource(read.imported, wanted, records, entry), _name_of(text))


def _name_of(text: str) -> str:
    return identifier(Path(text.partition(":")[0]).stem)


def _file_of(job: Job) -> str:
    text = module_of(job)
    if not Path(text.partition(":")[0]).is_file():
        problem = f"the model of job {job.job_id} was read from {text[:300]!r}, which is not in this folder."
        raise BadInput(FIELD, problem, _FIX)
    return text


def _of_job(machine: LocalMachine, job: Job, tuned_for: Target) -> Records:
    """The records of the functions, which must be those of the job if they are compiled for its target."""
    own = {task.workload_id for task in job.spec.tasks}
    search = records_of(machine)

    def found(tasks: Sequence[PreparedTask], target: Target, generator: str) -> Mapping[str, ChosenRecord]:
        if target == tuned_for:
            given = [task.workload for task in tasks]
            known = machine.recognised(given, with_schedules=False, of_model=True)
            other = next((each.name for each in known if each.workload_id not in own), None)
            if other is not None:
                problem = f"the model has the function {other}, which job {job.job_id} did not tune."
                raise BadInput(FIELD, problem, "Give the model that it tuned: --model FILE")
        return search(tasks, target, generator)

    return found
