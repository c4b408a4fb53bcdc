"""The result of tuning from Python."""

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tunefarm.artifact.artifact_folder import write_artifact
from tunefarm.artifact.kernel_loading import load_kernel
from tunefarm.model.model_writing import copy_model
from tunefarm.model.tuned.tuned_build import BuiltModel
from tunefarm.terminal.job_text import gain_text, interval_text
from tunefarm_schemas.kernel_library.of_target import rules_of
from tunefarm_schemas.tuning.artifact import ArtifactManifest
from tunefarm_schemas.tuning.record import TuningRecord
from tunefarm_schemas.views.jobs.summary import JobSummary, TaskSummary
from tunefarm_schemas.views.jobs.waterfall import predicted_s, waterfall
from tunefarm_schemas.views.quantities import counted, latency_text
from tunefarm_schemas.visible_text import visible_line
from tunefarm_services.store import LOCAL_TENANT, Store


class NothingToCompile(Exception):
    """Tuning ended without a correct kernel; the message states the reason."""


@dataclass(frozen=True)
class TuningResult:
    """The result of a job of one function, or of a model.

    ``record`` is the verified record, ``manifest`` and ``library`` the compiled function that was measured, and
    ``module_json`` the original function; each is None if no candidate was valid, and for a model, whose build is
    ``model``.
    """

    summary: JobSummary
    record: TuningRecord | None
    manifest: ArtifactManifest | None
    library: bytes | None = field(repr=False)
    module_json: str | None = field(repr=False)
    model: BuiltModel | None = None

    def __repr__(self) -> str:
        """One line with the task, its latency and its record."""
        if self.summary.of_model:
            return self._line_of_model()
        task = self.task
        record = "no record" if task.record_id is None else f"record {task.record_id}"
        latency = f"{latency_text(task.best_latency_s)}{interval_text(task.interval_s, was_busy=task.was_busy)}"
        latency += gain_text(task.untuned_latency_s, task.best_latency_s, about=task.untuned_is_estimate)
        threads = "" if self.manifest is None else f", {counted(self.manifest.num_cores, 'thread')}"
        following = f"tunefarm report {self.summary.job_id}" if self.library is None else ".compile() or .write(folder)"
        return f"TuningResult({visible_line(task.name)}: {latency}{threads}, {record}; next: {following})"

    def _line_of_model(self) -> str:
        functions = counted(len(self.summary.tasks), "function")
        if self.model is None:
            return f"TuningResult(a model of {functions}, not built; next: tunefarm report {self.summary.job_id})"
        times = f"{latency_text(self.model.latency_s)}, {latency_text(self.model.untried_s)} without a trial"
        return f"TuningResult(a model of {functions}: {times}; next: .compile() or .write(folder))"

    @classmethod
    def of(cls, store: Store, summary: JobSummary, model: BuiltModel | None = None) -> "TuningResult":
        """Fetch the record and the artifact of a summary; those of a model's functions stay in the store."""
        if summary.of_model:
            return cls(summary, record=None, manifest=None, library=None, module_json=None, model=model)
        task = summary.tasks[0]
        record = None if task.record_id is None else store.records.get(LOCAL_TENANT, task.record_id)
        if task.artifact_id is None:
            return cls(summary=summary, record=record, manifest=None, library=None, module_json=None)
        manifest, library = store.artifacts.get(LOCAL_TENANT, task.artifact_id)
        module_json = store.workloads.get(LOCAL_TENANT, manifest.workload_id).module_json
        return cls(summary=summary, record=record, manifest=manifest, library=library, module_json=module_json)

    @property
    def task(self) -> TaskSummary:
        """The summary of the only task; of a model, of its first function."""
        return self.summary.tasks[0]

    @property
    def best_latency_s(self) -> float | None:
        """Latency in seconds of the tuned function; of a model, of one run as it ships, measured whole."""
        if self.summary.of_model:
            return None if self.model is None else self.model.latency_s
        return self.task.best_latency_s

    @property
    def untuned_latency_s(self) -> float | None:
        """Latency in seconds of the untuned function; an estimate if ``task.untuned_is_estimate``.

        Of a model, the sum over its functions; None if one has no latency.
        """
        if self.summary.of_model:
            return predicted_s(waterfall(self.summary.model_dump(mode="json")), "untuned")
        return self.task.untuned_latency_s

    def write(self, folder: Path, *, callees: Collection[str] = ()) -> Path:
        """Write the library, its manifest and its function into ``folder``; returns the library's path.

        Of a model, writes what ``tunefarm.load_model`` reads, and returns the folder.

        ``callees`` are external functions that the library may call.

        Raises:
            NothingToCompile: there is no valid kernel.
            BadInput: the library uses something that kernels are not permitted to use.
        """
        if self.model is not None:
            return copy_model(self.model.folder, folder)
        if self.manifest is None or self.library is None or self.module_json is None:
            raise NothingToCompile(self.summary.message)
        rules = rules_of(self.manifest.target, callees)
        return write_artifact(folder, self.manifest, self.library, self.module_json, rules=rules)

    def put_back(self, module: Any, function: str | None = None, *, callees: Collection[str] = ()) -> Any:
        """Return an ``IRModule`` with the tuned schedule in place of a function; ``module`` is unchanged.

        Args:
            module: the module that the tuned function is from, or another one that contains it, such as a module of
                Relax functions that call it.
            function: its name in ``module``. Default: its name in the tuned module.
            callees: external functions that it may call.

        Raises:
            NothingToCompile: there is no valid kernel, or the result is of a model.
            BadInput: ``module`` has no such TIR function, or its parameters differ in shape or type, as those of
                ``packed`` records do.
        """
        if self.record is None or self.manifest is None or self.module_json is None:
            raise NothingToCompile(self.summary.message or "a model has no schedule of its own; .compile() builds it")
        from tunefarm_search.relax.assembly import put_back
        from tunefarm_search.tvm.serialization import load_json
        from tunefarm_workers.builder.scheduled_module import replay

        tuned, kind = load_json(self.module_json), str(json.loads(self.manifest.target)["kind"])
        scheduled = replay(tuned, self.record.trace.text, kind, callees)
        return put_back(module, {function or self.task.name: scheduled})

    def compile(self, *, callees: Collection[str] = ()) -> Any:
        """Load the measured library as a TVM runtime module; a model as ``CompiledModel``, which runs TVM's Relax VM.

        Also sets TVM's number of threads in this process to that of the record; if this is impossible, a warning names
        the variable to set.

        ``callees`` are external functions that the library may call.

        Raises:
            NothingToCompile: there is no valid kernel.
            BadInput: the library uses something that kernels are not permitted to use; nothing was loaded.
        """
        if self.model is not None:
            return self.model.load(callees)
        num_cores = 0 if self.manifest is None else self.manifest.num_cores
        return load_kernel(lambda folder: self.write(folder, callees=callees), num_cores)
