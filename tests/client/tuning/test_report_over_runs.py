"""The report over several runs, from trials and summaries in a real store; asserts the plotted lines."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.kernel_library import kernel_library
from tests.store.sample import TENANT, Bench, bench, failed, manifest, put_job, put_task, record, timing
from tunefarm.artifact.artifact_folder import MANIFEST_NAME
from tunefarm.local.output_folder import NAMES, write_outputs
from tunefarm.report import plots
from tunefarm.report.job_report import TaskReport, job_report
from tunefarm.report.page import render_page
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.artifact import ArtifactManifest
from tunefarm_schemas.tuning.job import JobOutcome
from tunefarm_schemas.views.jobs.summary import Improvement, JobSummary, ModelAccuracy, TaskSummary
from tunefarm_services.store import Store

UNTUNED_S = 1e-3
LIBRARY = kernel_library()
FIRST_RUN = ((0.5, 1, 8e-4), (1.0, 2, 5e-4), (2.0, 4, 4e-4))


@pytest.fixture(autouse=True)
def matplotlib_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    plots.prepare_matplotlib(tmp_path_factory.getbasetemp())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(f"sqlite:///{tmp_path}/tunefarm.db", tmp_path / "blobs")
    yield opened
    opened.close()


def ended(
    held: Bench,
    *,
    total_s: float,
    trials: int = 0,
    in_store: int,
    steps: Sequence[tuple[float, int, float]] = (),
    record_id: str | None = None,
) -> JobSummary:
    """End a run as its supervisor does; a run without trials was answered from the store."""
    task = TaskSummary(
        name="matmul",
        exploration_id=held.exploration_id,
        best_latency_s=1e-4,
        untuned_latency_s=UNTUNED_S,
        interval_s=None,
        record_id=record_id,
        artifact_id=None if record_id is None else f"artifact of {record_id}",
        trials=trials,
        trials_in_store=in_store,
        stop_reason=None,
        improvements=tuple(
            Improvement(elapsed_s=elapsed_s, trials=number, latency_s=latency_s, trace="[[],[]]")
            for elapsed_s, number, latency_s in steps
        ),
        failures={},
        first_failure_message="",
        answered_from_store=trials == 0,
    )
    summary = JobSummary(
        job_id=held.lease.job_id,
        outcome=JobOutcome.SUCCEEDED,
        message="",
        tasks=(task,),
        seconds={"total": total_s},
    )
    held.store.events.append(held.lease, "summary", summary.model_dump(mode="json"))
    return summary


def first_run(store: Store, record_id: str | None = None) -> tuple[Bench, JobSummary]:
    """Four trials, of which the third failed."""
    held = bench(store)
    for number, latency_s in ((0, 8e-4), (1, 5e-4), (3, 4e-4)):
        held.measure(number, timing(latency_s))
    held.measure(2, failed(FailureReason.CRASH))
    return held, ended(held, total_s=9.0, trials=4, in_store=4, steps=FIRST_RUN, record_id=record_id)


def next_job(held: Bench) -> Bench:
    """Another job over the same exploration."""
    held.store.leases.release(held.lease)
    return bench(held.store, put_job(held.store))


def task_of(held: Bench) -> TaskReport:
    """The only task in the report of a job."""
    return job_report(held.store, held.store.jobs.get(TENANT, held.lease.job_id)).tasks[0]


def drawn(figure: Any, label: str) -> list[tuple[float, float]]:
    """The points of the line with this label in the legend; empty without one."""
    lines = [line for line in figure.axes[0].lines if line.get_label() == label]
    assert len(lines) <= 1
    return [(float(x), float(y)) for line in lines for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]


def over_trials(task: TaskReport, label: str = "best so far") -> list[tuple[float, float]]:
    return drawn(plots.latency_over_trials(task), label)


def over_time(task: TaskReport) -> list[tuple[float, float]]:
    return drawn(plots.latency_over_time(task, task.run_s), "best so far")


FIRST_OVER_TRIALS = [(0.0, UNTUNED_S), (1.0, 8e-4), (2.0, 5e-4), (4.0, 4e-4)]
FIRST_OVER_TIME = [(0.0, UNTUNED_S), (0.5, 8e-4), (1.0, 5e-4), (2.0, 4e-4), (9.0, 4e-4)]


def test_curve_of_single_run_matches_its_trials(store: Store) -> None:
    held, _ = first_run(store)
    assert over_trials(task_of(held)) == [*FIRST_OVER_TRIALS, (4.0, 4e-4)]
    assert over_time(task_of(held)) == FIRST_OVER_TIME


def test_curve_continues_over_runs(store: Store) -> None:
    held = next_job(first_run(store)[0])
    held.measure(4, timing(6e-4))
    held.measure(5, timing(3e-4))
    ended(held, total_s=7.0, trials=2, in_store=6, steps=((1.5, 2, 3e-4),))
    task = task_of(held)
    assert over_trials(task) == [*FIRST_OVER_TRIALS, (6.0, 3e-4), (6.0, 3e-4)]
    assert over_trials(task, "each timed trial") == [(1, 8e-4), (2, 5e-4), (4, 4e-4), (5, 6e-4), (6, 3e-4)]
    assert over_time(task) == [(0.0, 4e-4), (1.5, 3e-4), (7.0, 3e-4)]
    assert [step.trials for step in task.steps] == [6]


def test_no_trial_is_below_the_curve(store: Store) -> None:
    held = next_job(first_run(store)[0])
    held.measure(4, timing(3e-4))
    ended(held, total_s=7.0, trials=1, in_store=5, steps=((1.5, 1, 3e-4),))
    task = task_of(held)
    stairs = over_trials(task)
    for number, latency_s in over_trials(task, "each timed trial"):
        assert latency_s >= [height_s for at, height_s in stairs if at <= number][-1]


def test_resumed_run_without_gain_keeps_previous_curve(store: Store) -> None:
    held = first_run(store)[0].taken_over()
    held.measure(4, timing(6e-4))
    ended(held, total_s=3.0, trials=1, in_store=5)
    task = task_of(held)
    assert over_time(task) == FIRST_OVER_TIME
    assert over_trials(task) == [*FIRST_OVER_TRIALS, (5.0, 4e-4)]


def test_report_of_repeat_shows_original_run(store: Store) -> None:
    held = next_job(first_run(store)[0])
    ended(held, total_s=0.4, in_store=4)
    assert over_time(task_of(held)) == FIRST_OVER_TIME
    assert over_trials(task_of(held)) == [*FIRST_OVER_TRIALS, (4.0, 4e-4)]
    page = render_page(job_report(store, store.jobs.get(TENANT, held.lease.job_id)))
    assert "answered from the store, 0 trials" in page


def test_slower_verified_latency_is_not_a_step(store: Store) -> None:
    held, summary = first_run(store, with_artifact(store, "r1"))
    (task,) = summary.tasks
    verified = Improvement(elapsed_s=8.0, trials=4, latency_s=6e-4, trace="[[],[]]", is_verified=True)
    of_earlier_version = verified.model_copy(update={"is_verified": False})  # the format of an earlier version
    for last in (verified, of_earlier_version):
        improved = task.model_copy(update={"improvements": (*task.improvements, last), "best_latency_s": 6e-4})
        event = summary.model_copy(update={"tasks": (improved,)})
        held.store.events.append(held.lease, "summary", event.model_dump(mode="json"))
        figure = plots.latency_over_time(task_of(held), 9.0)
        assert drawn(figure, "best so far") == FIRST_OVER_TIME
        assert drawn(figure, "measured: 400 us") == [(2.0, 4e-4)]
        assert drawn(figure, "verified: 600 us") == [(9.0, 6e-4)]


def test_report_lists_accuracy_of_all_runs_in_order(store: Store) -> None:
    held, summary = first_run(store)
    (task,) = summary.tasks
    for known in (24, 16):
        accuracy = (ModelAccuracy(known=known, new=8, pairs=50, share=0.7),)
        event = summary.model_copy(update={"tasks": (task.model_copy(update={"model_accuracy": accuracy}),)})
        held.store.events.append(held.lease, "summary", event.model_dump(mode="json"))
    assert [each.known for each in task_of(held).accuracy] == [16, 24]


def with_artifact(store: Store, record_id: str) -> str:
    put_task(store)
    store.records.put(TENANT, None, record(record_id, 1e-4))
    store.artifacts.put(TENANT, manifest(f"artifact of {record_id}", record_id, LIBRARY), LIBRARY)
    return record_id


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in NAMES}


def change_manifest(folder: Path, **changes: str) -> None:
    path = folder / MANIFEST_NAME
    changed = ArtifactManifest.model_validate_json(path.read_bytes()).model_copy(update=changes)
    path.write_text(changed.model_dump_json())


@pytest.mark.faults
def test_repeat_keeps_plots_of_measuring_run(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    held, summary = first_run(store, with_artifact(store, "r1"))
    write_outputs(store, summary, folder, numpy_latency_s=2e-4)
    before = contents(folder)
    repeat = ended(next_job(held), total_s=0.4, in_store=4, record_id="r1")
    write_outputs(store, repeat, folder, numpy_latency_s=None)
    assert contents(folder) == before
    (folder / "report.html").unlink()
    write_outputs(store, repeat, folder, numpy_latency_s=None)
    after = contents(folder)
    assert after["best-latency.svg"] == before["best-latency.svg"]
    assert b"answered from the store" in after["report.html"]


@pytest.mark.faults
def test_plots_of_another_function_or_record_are_replaced(store: Store, tmp_path: Path) -> None:
    held, summary = first_run(store, with_artifact(store, "r1"))
    repeat = ended(next_job(held), total_s=0.4, in_store=4, record_id="r1")
    for changes in ({"workload_id": "of another function"}, {"record_id": "older"}):
        folder = tmp_path / next(iter(changes))
        folder.mkdir()
        write_outputs(store, summary, folder, None)
        change_manifest(folder, **changes)
        for name in NAMES:
            (folder / name).write_text("something else")
        write_outputs(store, repeat, folder, None)
        assert b"something else" not in contents(folder).values(), changes


def test_repeat_without_curve_keeps_plots(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    repeat = ended(bench(store), total_s=0.4, in_store=4, record_id=with_artifact(store, "r1"))
    for name in NAMES:
        (folder / name).write_text("a good picture")
    write_outputs(store, repeat, folder, numpy_latency_s=None)
    assert set(contents(folder).values()) == {b"a good picture"}
    assert list(folder.glob("*.so"))
