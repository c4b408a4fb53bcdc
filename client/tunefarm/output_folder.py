"""What ``tune --output`` leaves behind: the library, its manifest, a plot, the report."""

from pathlib import Path

from tunefarm.artifact_folder import task_folder, write_artifact
from tunefarm.report import plots
from tunefarm.report.job_report import JobReport, job_report
from tunefarm.report.page import render_page
from tunefarm_services.store import LOCAL_TENANT, Store
from tunefarm_services.tuner.summary import JobSummary


def write_outputs(store: Store, summary: JobSummary, folder: Path, numpy_latency_s: float | None) -> None:
    """Write everything into ``folder``; with several tasks, each library into a folder of its own."""
    for position, task in enumerate(summary.tasks):
        if task.artifact_id is not None:
            manifest, library = store.artifact(LOCAL_TENANT, task.artifact_id)
            place = task_folder(folder, position, len(summary.tasks))
            module_json = store.workload(LOCAL_TENANT, manifest.workload_id).module_json
            write_artifact(place, manifest, library, module_json, store.input_examples(manifest.input_specs))
    report = job_report(store, store.job(LOCAL_TENANT, summary.job_id))
    write_report(report.model_copy(update={"numpy_latency_s": numpy_latency_s}), folder)


def write_report(report: JobReport, folder: Path) -> None:
    """The plot of best latency over time as SVG and PNG, and the page."""
    figure = plots.latency_over_time(report.tasks[0], report.seconds.get("total", 0.0), report.numpy_latency_s)
    (folder / "best-latency.svg").write_text(plots.as_svg(figure), encoding="utf-8")
    (folder / "best-latency.png").write_bytes(plots.as_png(figure))
    (folder / "report.html").write_text(render_page(report), encoding="utf-8")
