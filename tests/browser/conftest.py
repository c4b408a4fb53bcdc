"""A real service over the store of a real job, and one Chromium, for all tests of the pages."""

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine, delete

from tests.browser import hostile, own
from tests.browser.page_list import Shown
from tests.browser.visits import Visits
from tests.servers.real_service import RealService
from tests.servers.tuned_home import tuned_home
from tunefarm_services.store import Store
from tunefarm_services.store.tables import LaneTable

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SWITCHES = (
    "--no-sandbox",
    "--disable-gpu",
    "--in-process-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealService]:
    """The API over a store that ``tunefarm tune`` filled. No tuner runs, so jobs stay in the state of the test."""
    home = tuned_home(tmp_path_factory).copied_to(tmp_path_factory.mktemp("pages") / "home")
    serving = RealService(home, ("--no-tuner", "--processes", "1"))
    serving.start()
    yield serving
    serving.kill()


@pytest.fixture(scope="package")
def store(service: RealService) -> Iterator[Store]:
    """The store of the service."""
    opened = Store.open(f"sqlite:///{service.home}/tunefarm.db", service.home / "blobs")
    yield opened
    opened.close()


@pytest.fixture(scope="package")
def shown(store: Store) -> Shown:
    return own.fill(store)


@pytest.fixture(scope="package")
def shown_hostile(store: Store) -> Shown:
    return hostile.fill(store)


@pytest.fixture
def hostile_device(service: RealService, store: Store) -> Iterator[None]:
    """A device with hostile names, which every tenant sees."""
    named = hostile.hostile_lane()
    store.lanes.put(named)
    yield
    engine = create_engine(f"sqlite:///{service.home}/tunefarm.db")
    with engine.begin() as connection:
        connection.execute(delete(LaneTable).where(LaneTable.lane_id == named.lane_id))
    engine.dispose()


@pytest.fixture(scope="package")
def chromium() -> "Iterator[Browser]":
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, PROGRAMS)), None)
    assert path is not None, "install Chromium: make test does, as root on Debian"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(SWITCHES))
        yield browser
        browser.close()


@pytest.fixture
def visits(chromium: "Browser", service: RealService, store: Store) -> Iterator[Visits]:
    """Browsers for one test."""
    visiting = Visits(chromium, service, store)
    yield visiting
    visiting.close()
