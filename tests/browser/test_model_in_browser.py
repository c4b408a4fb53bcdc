"""The page of a model in a real browser, and the report of one file."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.test_in_browser import _violations
from tests.client.tuning.test_report import report_of
from tests.dashboard.model_jobs import BUILT, ROOFLINE, ended, model_job, task
from tests.servers.real_service import RealService
from tunefarm.report import plots
from tunefarm.report.page import render_page
from tunefarm_services.store import LOCAL_TENANT, Store

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

NAMES = ("conv", "a_function_of_a_rather_long_name" * 3, "dense")
VIEWS = ((1280, "light"), (390, "dark"))


@pytest.fixture(scope="module")
def model_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealService]:
    """A service whose store has the job of a model that was built."""
    serving = RealService(tmp_path_factory.mktemp("model"))
    serving.command("db", "stats")
    store = Store.open(f"sqlite:///{serving.home}/tunefarm.db", serving.home / "blobs")
    _, lease = model_job(store, NAMES, LOCAL_TENANT)
    ended(store, lease, tuple(task(name, roofline=ROOFLINE) for name in NAMES), BUILT)
    store.close()
    serving.start()
    yield serving
    serving.kill()


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
def test_a_model_is_shown_without_scripts_and_fits(
    chromium: "Browser", model_service: RealService, width: int, scheme: str
) -> None:
    context = chromium.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="light" if scheme == "light" else "dark",
        bypass_csp=True,  # for the rules of accessibility, which are a script
    )
    page = context.new_page()
    page.goto(model_service.command("open", "--print"))
    page.goto(f"{model_service.url}/dashboard/jobs")
    page.click("tbody a")
    page.click("text=Where the model")
    assert "conv" in page.inner_text(".waterfall")
    assert "50 us" in page.inner_text("table.dense")
    assert "measured, warm caches" in page.inner_text("main").lower()
    assert page.query_selector("main script, main canvas") is None
    bars = page.eval_on_selector_all(".waterfall rect", "bars => bars.map(bar => bar.getBoundingClientRect().width)")
    assert len(bars) == len(NAMES) + 5
    assert all(bar > 0 for bar in bars)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert _violations(page) == []
    context.close()


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
def test_a_report_opens_from_a_file_offline(chromium: "Browser", tmp_path: Path, width: int, scheme: str) -> None:
    plots.prepare_matplotlib(tmp_path)
    path = tmp_path / "report.html"
    report = report_of("conv").model_copy(update={"of_model": True, "built": BUILT})
    path.write_text(render_page(report))
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme="light" if scheme == "light" else "dark", offline=True
    )
    page = context.new_page()
    problems: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    assert "conv" in page.inner_text(".waterfall")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("getComputedStyle(document.body).colorScheme") == "light dark"
    assert (problems, requests) == ([], [path.as_uri()])
    context.close()
