"""Pictures of the pages, compared with committed ones.

Names, numbers and curves differ from run to run, so a picture shows where they stand instead of what they are. Fonts
differ from machine to machine, so pictures are compared at a quarter of their size.
``TUNEFARM_NEW_PICTURES=1 make test-browser`` takes new ones.
"""

import io
import os
from pathlib import Path

import numpy
import pytest
from PIL import Image

from tests.browser.page_list import UNSTEADY, Shown, paths_of
from tests.browser.visits import VIEWS, Visits

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


@pytest.mark.faults
@pytest.mark.parametrize("view", ["wide", "narrow"])
def test_pages_look_as_in_their_pictures(visits: Visits, shown: Shown, view: str) -> None:
    page = visits.page(view=VIEWS[view], checks_policy=False)
    unlike = {}
    for name, path in paths_of(shown).items():
        if name not in UNSTEADY:
            page.goto(visits.address(path))
            taken = Image.open(io.BytesIO(page.screenshot(style=STYLE))).convert("RGB")
            share = _different_share(taken, PICTURES / f"{name.replace(' ', '-')}-{view}.png")
            if share > MAX_DIFFERENT_SHARE:
                unlike[name] = f"{share:.1%} of the page"
    visits.problems[:] = [each for each in visits.problems if "404" not in each]
    assert unlike == {}


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
