"""A model that is tuned on this machine: read by its frontend, split into functions, and built from their records."""

import atexit
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tunefarm.frontend.model_file import model_file
from tunefarm.frontend.model_import import ImportedModel, import_model
from tunefarm.frontend.model_source import ModelFile
from tunefarm.intake.intake_request import IntakeAnswer, IntakeRequest
from tunefarm.intake.module_source import JsonSource, ModuleSource, PythonSource, parse_module_source
from tunefarm.local.checked_buckets import CheckedBuckets, checked_buckets
from tunefarm.local.machine import LocalMachine
from tunefarm.model.function_orders import ChosenRecord
from tunefarm.model.model_writing import staged, write_manifest
from tunefarm.model.race.library_race import LibraryChoice
from tunefarm.model.tuned.tuned_build import BuiltModel, ModelBuilder
from tunefarm.options.model_options import SIZES_LABEL, ModelOptions
from tunefarm.terminal.resume_option import module_of
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.host_cores import usable_physical_cores
from tunefarm_schemas.tuning.job import Job
from tunefarm_schemas.views.jobs.summary import MODEL_BUILT, JobSummary
from tunefarm_services.store import LOCAL_TENANT

DEFAULT_OPTIONS: Final = ModelOptions()


def kept_folder() -> Path:
    """A new folder that is removed when this process ends."""
    folder = tempfile.TemporaryDirectory(prefix="tunefarm-model-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def resumed_model(machine: LocalMachine, job: Job) -> "tuple[ModelJob, IntakeAnswer]":
    """The model of a job from the file that was given when the job was created, and its functions.

    Raises:
        BadInput: the file is gone, or cannot be read.
    """
    text = module_of(job)
    file = model_file(text)
    options = ModelOptions.of_labels(job.spec.labels)
    model = ModelJob(machine, parse_module_source(text) if file is None else file, options)
    target = machine.store.targets.get(job.spec.tasks[0].target_id).canonical
    request = IntakeRequest(
        module=model.as_module(target),
        function=None,
        all_functions=False,
        target=target,
        abi=job.spec.abi,
        space=None,
        seeds=(),
        host_cores=usable_physical_cores(),
    )
    return model, model.understand(request)


class ModelJob:
    """The model of one job."""

    def __init__(
        self, machine: LocalMachine, source: ModuleSource | ModelFile, options: ModelOptions = DEFAULT_OPTIONS
    ) -> None:
        """``source`` is a model's file, or a module that the intake may find to be a model."""
        self._machine = machine
        self._options = options
        self._source = source
        self._imported: ImportedModel | None = None
        self._buckets: CheckedBuckets | None = None
        self._target = ""

    @property
    def imported(self) -> ImportedModel:
        """The model as TVM JSON with its weights, read when it is first needed. Raises BadInput."""
        if self._imported is None:
            self._imported = self._read()
        return self._imported

    @property
    def labels(self) -> dict[str, str]:
        """Labels of its job beyond those of its options."""
        return {} if self._buckets is None else {SIZES_LABEL: json.dumps(self._buckets.sizes)}

    def as_module(self, target: str) -> ModuleSource:
        """What the intake reads: the source itself, or the module that its frontend made of it.

        ``target`` is as typed; sizes of buckets are chosen for it. Raises BadInput.
        """
        self._target = target
        if isinstance(self._source, ModelFile) or self._is_file:
            return self.convert()
        return self._source

    def understand(self, request: IntakeRequest) -> IntakeAnswer:
        """The functions of ``request``, whose module is that of this job.

        Raises:
            BadInput: a part of it cannot be tuned, or an option of models does not apply to its module.
        """
        is_file, functions = self._is_file, self._options.functions_file
        given = {
            "module": self.as_module(request.target),
            "functions_file": None if functions is None else str(functions),
        }
        answer = self._machine.understand(request.model_copy(update=given), self.convert)
        self._options.require_read(by_frontend=is_file or answer.is_of_frontend, is_model=bool(answer.calls))
        return answer

    def convert(self) -> JsonSource:
        """The Relax module that the model's frontend makes of it. Raises BadInput."""
        return JsonSource(name=self._name, text=self.imported.module_json)

    def build(
        self,
        answer: IntakeAnswer,
        job: Job,
        summary: JobSummary,
        folder: Path,
        say: Callable[[str], None] = lambda _: None,
        libraries: LibraryChoice | None = None,
    ) -> BuiltModel:
        """Build the model from the records of ``summary`` into ``folder``, time it, and note its times with the job.

        Functions without a record get the schedules that they have without a trial. ``libraries`` may run parts.

        Raises:
            BadInput: it cannot be built, or computes something else than the unscheduled model.
        """
        machine = self._machine
        stored = machine.recognised(answer.workloads, with_schedules=False, of_model=True)
        ends = {task.workload_id: end for task, end in zip(job.spec.tasks, summary.tasks, strict=True)}
        records = {}
        for given, known in zip(answer.workloads, stored, strict=True):
            end = ends.get(known.workload_id)
            if end is not None and end.record_id is not None:
                trace = machine.store.records.get(LOCAL_TENANT, end.record_id).trace
                records[given.workload_id] = ChosenRecord(end.record_id, trace.text)
        folder.mkdir(parents=True, exist_ok=True)
        target = answer.target.canonical
        functions_file = self._options.functions_file
        builder = ModelBuilder(machine.fork_server, self.imported, target, self._name, say, functions_file, libraries)
        built = _built(builder, folder, records, self._buckets)
        machine.store.events.append_unleased(LOCAL_TENANT, job.job_id, MODEL_BUILT, built.figures())
        return built

    @property
    def _is_file(self) -> bool:
        """Whether its frontend is known before the intake has read it."""
        return isinstance(self._source, ModelFile) or self._options.buckets is not None

    @property
    def _name(self) -> str:
        source = self._source
        return Path(source.path).stem if isinstance(source, ModelFile | PythonSource) else "model"

    def _read(self) -> ImportedModel:
        source, fork_server = self._source, self._machine.fork_server
        if self._options.buckets is not None:
            self._buckets = checked_buckets(fork_server, source, self._options, self._target)
            return self._buckets.imported
        if isinstance(source, ModelFile | PythonSource):
            return import_model(fork_server, source, self._options.shapes, traced=self._options.is_traced)
        if not isinstance(source, JsonSource):
            raise BadInput("module", "it is not a model.", "Give the file of a model.")
        with tempfile.NamedTemporaryFile("w", suffix=".json", prefix="tunefarm-") as file:
            file.write(source.text)
            file.flush()
            Path(file.name).chmod(0o644)  # its reader is another user
            return import_model(fork_server, ModelFile(path=file.name, format="json"))


def _built(
    builder: ModelBuilder, folder: Path, records: Mapping[str, ChosenRecord], buckets: CheckedBuckets | None
) -> BuiltModel:
    """Build all entries. With ``buckets``, the manifest names their sizes."""
    if buckets is None:
        return builder.build(folder, records)
    with staged(folder.resolve()) as staging:
        built = builder.build(staging, records)
        manifest = built.manifest.model_copy(update={"dynamic": buckets.dynamic})
        write_manifest(staging, manifest)
    return replace(built, folder=folder, manifest=manifest)
