"""Pictures of the pages, compared with committed ones.

Names, numbers and curves differ from run to run, so a picture shows where they stand instead of what they are. Fonts
differ from machine to machine, so pictures are compared at a quarter of their size.
``TUNEFARM_NEW_PICTURES=1 make test-browser`` takes new ones.
"""

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy
import pytest
from PIL import Image

from tests.servers.real_service import HANGING_S, RealService

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

PICTURES = Path(__file__).parent / "pictures"
STYLE = """
*, *::before, *::after { animation: none !important; transition: none !important; caret-color: transparent !important; }
main canvas, main svg, .legend, .u-legend { visibility: hidden !important; }
table { table-layout: fixed !important; width: 100% !important; }
main * { color: transparent !important; text-decoration: none !important; border-radius: 0 !important; }
main h2, main th, main button, main label, main dt { color: CanvasText !important; }
main .state { border-color: transparent !important; background: none !important; }
"""
"""Hides what differs from run to run and keeps its place."""
REDUCTION = 4
MAX_DIFFERENT_SHARE = 0.03
"""Of the reduced picture's points. A column that is gone or a colour that changed makes more."""
MIN_DIFFERENCE = 48
"""Of 255: another font's edges stay below."""
VIEWS = {"wide": (1280, 900, "light"), "narrow": (390, 844, "dark")}


@pytest.fixture(scope="module")
def quiet_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealService]:
    """A service that has tuned one function and does nothing more."""
    serving = RealService(tmp_path_factory.mktemp("pictures"))
    serving.start()
    serving.command("submit", "builtin:matmul:32x32x32", "--trials", "8", "--label", "model=resnet", "--wait")
    yield serving
    serving.kill()


@pytest.fixture(params=VIEWS)
def view(
    request: pytest.FixtureRequest, chromium: "Browser", quiet_service: RealService
) -> "Iterator[tuple[str, Page]]":
    width, height, scheme = VIEWS[request.param]
    context = chromium.new_context(
        viewport={"width": width, "height": height},
        color_scheme="light" if scheme == "light" else "dark",
        reduced_motion="reduce",
        bypass_csp=True,
    )
    opened = context.new_page()
    opened.set_default_timeout(HANGING_S * 1000)
    opened.goto(quiet_service.command("open", "--print"))
    yield request.param, opened
    context.close()


def test_pages_look_as_in_their_pictures(view: "tuple[str, Page]", quiet_service: RealService) -> None:
    name, page = view
    unlike = {}
    for title, address in _pages(page, quiet_service).items():
        page.goto(address)
        page.wait_for_load_state("load")
        taken = Image.open(io.BytesIO(page.screenshot(style=STYLE))).convert("RGB")
        share = _different_share(taken, PICTURES / f"{title}-{name}.png")
        if share > MAX_DIFFERENT_SHARE:
            unlike[title] = f"{share:.1%} of the page"
    assert unlike == {}


def _pages(page: "Page", service: RealService) -> dict[str, str]:
    """The addresses of the pages to look at, by the names of their pictures."""
    base = f"{service.url}/dashboard"
    page.goto(f"{base}/jobs")
    job = f"{service.url}{page.get_attribute('tbody a', 'href')}"
    page.goto(f"{base}/records")
    record = f"{service.url}{page.get_attribute('tbody a', 'href')}"
    page.goto(job)
    trials, space = (
        f"{service.url}{page.get_attribute(f'text={link}', 'href')}" for link in ("All trials", "Space and model")
    )
    listed = {name: f"{base}/{name}" for name in ("jobs", "records", "devices")}
    return {"overview": f"{base}/", "job": job, "trials": trials, "space": space, "record": record} | listed


def _different_share(taken: Image.Image, kept: Path) -> float:
    """The share of points that differ from the committed picture, which is written if it is asked for."""
    reduced = taken.resize((taken.width // REDUCTION, taken.height // REDUCTION), Image.Resampling.BOX)
    if os.environ.get("TUNEFARM_NEW_PICTURES"):
        kept.parent.mkdir(exist_ok=True)
        reduced.quantize(64).save(kept, optimize=True)
    with Image.open(kept) as picture:
        expected = numpy.asarray(picture.convert("RGB"), "int16")
    found = numpy.asarray(reduced, "int16")
    if found.shape != expected.shape:
        return 1.0
    return float((numpy.abs(found - expected).max(axis=2) >= MIN_DIFFERENCE).mean())
