"""The benchmark of the pages: what it stores, and what it writes."""

from pathlib import Path

from benchmarks.dashboard.figures import DashboardFigures, Interactions, Paint, ViewerFigures, page_of, quantile
from benchmarks.dashboard.large_job import put_large_job, put_running_job
from benchmarks.machine import this_machine
from benchmarks.store.synthetic_records import TENANT
from tunefarm_schemas.tuning.job import JobState
from tunefarm_services.settings import Settings
from tunefarm_services.store import Store


def test_large_jobs_are_stored_as_a_tuner_stores_them(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    store = Store.open(settings.database(), settings.blobs())
    finished = put_large_job(store, settings, 0, 300)
    running, lease = put_running_job(store, settings, 1, 100)
    points = store.points.of_exploration(TENANT, finished.exploration_id, 1000)
    assert points.end == 300
    assert 0 < points.failures["build_error"] < 60
    assert len(store.trials.page(TENANT, finished.exploration_id, 250)) == 49
    assert store.jobs.get(TENANT, finished.job_id).state is JobState.FINISHED
    assert store.events.latest(TENANT, finished.job_id, "summary") is not None
    assert store.jobs.get(TENANT, running.job_id).state is JobState.RUNNING
    last = store.events.last_sequence(TENANT, running.job_id)
    assert store.events.append(lease, "progress", {}).sequence == last + 1
    store.close()


def test_the_page_shows_every_figure() -> None:
    seconds = (0.1, 0.2, 0.3)
    viewers = ViewerFigures(
        viewers=500,
        events=30,
        lost=0,
        behind=0,
        kills=1,
        delays_s=(0.2, 0.9, 1.1),
        charts=300,
        seconds=60.0,
        cpu_share=0.5,
        cpu_ms_per_viewer_s=1.0,
        server_bytes=200 << 20,
    )
    figures = DashboardFigures(
        machine=this_machine(),
        trials=1000,
        fill_s=1.0,
        paints=(Paint(page="job", seconds=seconds),),
        chart_drawn_s=seconds,
        interactions=(Interactions(kind="the next page is painted", seconds=seconds),),
        script_bytes=42_000,
        event_to_screen_s=seconds,
        viewers=viewers,
        beside=(),
    )
    page = page_of(figures)
    assert "| job | 200 ms | 300 ms |" in page
    assert "| 500 | 30 | 0 | 0 after 1 kill of the API | 200 / 900 / 1100 ms | 5/s | 50% of a core |" in page
    assert quantile(seconds, 1.0) == 0.3
