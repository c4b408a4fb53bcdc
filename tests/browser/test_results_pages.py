"""Pages of what a search found: the record, the space of a task, the model, and the report in one file."""

import hashlib
import re
from pathlib import Path

import pytest

from tests.browser.own import FUNCTIONS
from tests.browser.page_list import DOWNLOADS, Shown, downloads_of
from tests.browser.visits import NARROW, WIDE, View, Visits
from tests.client.tuning.test_report import report_of
from tests.dashboard.model_jobs import BUILT
from tunefarm.report import plots
from tunefarm.report.page import render_page

pytestmark = pytest.mark.browser


def test_a_record_shows_why_it_won_and_downloads_what_ships(visits: Visits, shown: Shown) -> None:
    page = visits.page()
    page.goto(visits.address(f"/records/{shown.record_id}"))
    assert page.locator(".strip .mark").bounding_box() is not None
    undrawn = re.search(r"(\d+) much slower trial", page.inner_text("main"))
    trials = page.locator(".strip circle").count() + (int(undrawn[1]) if undrawn else 0)
    assert trials == page.locator("[aria-label='Table: fastest trials'] tbody tr").count() > 0
    page.click(".tabs >> text=Changes")
    assert page.url.endswith("?show=diff")
    changes = page.inner_text("main")
    assert "+++ scheduled" in changes or "The schedule changes nothing" in changes
    page.click(".tabs >> text=Assembly")
    assert "__tvm_ffi_main:" in page.inner_text("pre.code")
    page.click(".tabs >> text=Artifact")
    with page.expect_download() as download:
        page.click("text=Download the library")
    library = Path(download.value.path()).read_bytes()
    assert hashlib.sha256(library).hexdigest() in page.inner_text("main")


def test_every_download_is_a_file(visits: Visits, shown: Shown) -> None:
    page = visits.page()
    for name, path in downloads_of(shown).items():
        answer = page.request.get(visits.address(path))
        assert answer.ok, name
        assert answer.headers["content-disposition"].startswith("attachment; filename="), name
        assert answer.body(), name
    assert len(DOWNLOADS) == len(downloads_of(shown))


@pytest.mark.faults
def test_the_space_of_a_task_marks_the_trial_of_its_address(visits: Visits, shown: Shown) -> None:
    page = visits.page()
    page.goto(visits.address(f"/jobs/{shown.space_job_id}"))
    page.click("text=Space and model")
    assert "Share of the variance" in page.inner_text("main")
    lines = page.locator("svg path.trial").count()
    assert lines > 0
    page.click("text=As a table >> nth=0")
    page.click("section[aria-labelledby=fastest] tbody a >> nth=0")
    assert "trial=" in page.url
    assert page.locator("svg path.chosen").count() == 1
    assert page.locator("svg path.trial").count() == lines
    assert page.locator("tr.chosen-row").is_visible()


def test_a_model_shows_where_its_time_is_without_scripts(visits: Visits, shown: Shown) -> None:
    page = visits.page(has_scripts=False)
    page.goto(visits.address(f"/jobs/{shown.model_job_id}"))
    page.click("text=Where the model")
    assert "conv" in page.inner_text(".waterfall")
    assert "50 us" in page.inner_text("table.dense")
    assert re.search("measured, warm", page.inner_text("main"), re.IGNORECASE)
    widths = [box["width"] for box in (bar.bounding_box() for bar in page.locator(".waterfall rect").all()) if box]
    assert len(widths) == len(FUNCTIONS) + 5
    assert all(width > 0 for width in widths)


@pytest.mark.parametrize(
    "view", [pytest.param(NARROW, id="narrow"), pytest.param(WIDE, id="wide", marks=pytest.mark.faults)]
)
def test_a_report_opens_from_a_file_offline(visits: Visits, tmp_path: Path, view: View) -> None:
    plots.prepare_matplotlib(tmp_path)
    path = tmp_path / "report.html"
    path.write_text(render_page(report_of("conv").model_copy(update={"of_model": True, "built": BUILT})))
    page = visits.page(None, view)
    page.context.set_offline(True)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    assert "conv" in page.inner_text(".waterfall")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("getComputedStyle(document.body).colorScheme") == "light dark"
    assert requests == [path.as_uri()]
