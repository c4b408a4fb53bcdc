"""The files of ``tune --output``: the library, its manifest, a plot and the report."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from tunefarm.artifact.artifact_folder import MANIFEST_NAME, task_folder, write_artifact
from tunefarm.confined.record_view import RecordView
from tunefarm.report import plots
from tunefarm.report.job_report import JobReport, job_report
from tunefarm.report.page import render_page
from tunefarm.terminal.user_files import put_file, read_plain_file
from tunefarm_schemas.kernel_library.of_target import rules_of
from tunefarm_schemas.tuning.artifact import ArtifactManifest
from tunefarm_schemas.tuning.record import TuningRecord
from tunefarm_schemas.views.jobs.summary import JobSummary
from tunefarm_services.store import LOCAL_TENANT, Store

SVG_NAME: Final = "best-latency.svg"
PNG_NAME: Final = "best-latency.png"
PAGE_NAME: Final = "report.html"
NAMES: Final = (SVG_NAME, PNG_NAME, PAGE_NAME)


def write_outputs(
    store: Store,
    summary: JobSummary,
    folder: Path,
    numpy_latency_s: float | None,
    callees: Collection[str] = (),
    view: Callable[[TuningRecord], RecordView] | None = None,
) -> None:
    """Write all files into ``folder``; with several tasks, each library into its own subfolder.

    ``callees`` are external functions that the libraries may call. If nothing was measured, existing plots of the run
    that found the same record stay. ``view`` formats a record's schedule for the page. Of a model, whose files are
    written where it is built, only the report.
    """
    if summary.of_model:
        whole = job_report(store, store.jobs.get(LOCAL_TENANT, summary.job_id), view)
        put_file(folder / PAGE_NAME, render_page(whole).encode())
        return
    earlier = _manifest_in(task_folder(folder, 0, len(summary.tasks)))
    for position, task in enumerate(summary.tasks):
        if task.artifact_id is not None:
            manifest, library = store.artifacts.get(LOCAL_TENANT, task.artifact_id)
            place = task_folder(folder, position, len(summary.tasks))
            module_json = store.workloads.get(LOCAL_TENANT, manifest.workload_id).module_json
            examples = store.input_examples.get(manifest.input_specs)
            write_artifact(place, manifest, library, module_json, examples, rules_of(manifest.target, callees))
    report = job_report(store, store.jobs.get(LOCAL_TENANT, summary.job_id))
    stays = _adds_nothing_to(report, earlier)
    names = [name for name in NAMES if not (stays and (folder / name).exists())]
    if names:
        if PAGE_NAME in names and view is not None:
            report = job_report(store, report.job, view)
        write_report(report.model_copy(update={"numpy_latency_s": numpy_latency_s}), folder, names)


def write_report(report: JobReport, folder: Path, names: Sequence[str] = NAMES) -> None:
    """Write the files in ``names``: the plot of best latency over time as SVG or PNG, and the page."""
    task = report.tasks[0]
    figure = plots.latency_over_time(task, task.run_s, report.numpy_latency_s)
    written = {
        SVG_NAME: plots.as_svg(figure).encode(),
        PNG_NAME: plots.as_png(figure),
        PAGE_NAME: render_page(report).encode(),
    }
    for name in names:
        put_file(folder / name, written[name])


def _manifest_in(folder: Path) -> ArtifactManifest | None:
    try:
        return ArtifactManifest.model_validate_json(read_plain_file(folder / MANIFEST_NAME))
    except (OSError, ValidationError):
        return None


def _adds_nothing_to(report: JobReport, earlier: ArtifactManifest | None) -> bool:
    """Whether the report adds nothing to the existing plots next to the manifest ``earlier``.

    This is so if the job was answered from the store, with the same record or without a curve to draw.
    """
    task = report.tasks[0]
    if not task.summary.answered_from_store:
        return False
    if earlier is None or earlier.workload_id == report.job.spec.tasks[0].workload_id:
        is_of_record = earlier is not None and earlier.record_id == task.summary.record_id
        return is_of_record or not task.steps
    return False
