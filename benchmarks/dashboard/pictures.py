"""Pictures of the pages for the documents, of a service that has tuned a function.

    python -m benchmarks.dashboard.pictures

writes ``docs/images/dashboard-PAGE.png``, 1280 points wide and light, and ``dashboard-PAGE-narrow.png``, 390 points
wide and dark.
"""

import argparse
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from PIL import Image
from playwright.sync_api import Page

from benchmarks.dashboard.chromium import chromium
from benchmarks.service.service_process import ServiceProcess

FOLDER: Final = Path(__file__).parents[2] / "docs" / "images"
_WORKLOAD: Final = "builtin:matmul_bias_relu:512x512x512"
_VIEWS: Final[tuple[tuple[str, int, int, Literal["light", "dark"]], ...]] = (
    ("", 1280, 1000, "light"),
    ("-narrow", 390, 844, "dark"),
)
_COLORS: Final = 128
_WAIT_S: Final = 600.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Tune, and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=128)
    parser.add_argument("--output", type=Path, default=FOLDER)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tunefarm-pictures-") as folder:
        service = ServiceProcess(Path(folder))
        service.start()
        try:
            labels = ("--label", "model=resnet", "--label", "owner=alice")
            _command(folder, "submit", _WORKLOAD, "--trials", str(options.trials), *labels, "--wait")
            _command(folder, "submit", "builtin:matmul:256x256x256", "--trials", "4000")
            _take(service, folder, options.output)
        finally:
            service.stop()
    return 0


def _take(service: ServiceProcess, home: str, output: Path) -> None:
    with chromium() as browser:
        for suffix, width, height, scheme in _VIEWS:
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            page = context.new_page()
            page.set_default_timeout(_WAIT_S * 1000)
            page.goto(_command(home, "open", "--print"))
            for name, address in _addresses(page, f"{service.url}/dashboard").items():
                page.goto(f"{service.url}{address}")
                if name == "job":
                    page.wait_for_selector("#by-prediction canvas")
                _save(page.screenshot(), output / f"dashboard-{name}{suffix}.png")
            context.close()


def _addresses(page: Page, root: str) -> dict[str, str]:
    """The pages to take pictures of, found by their links."""
    page.goto(f"{root}/jobs?state=finished")
    job = _link(page, "tbody a")
    page.goto(f"{root}/records")
    record = _link(page, "tbody a")
    page.goto(root.removesuffix("/dashboard") + job)
    return {"overview": "/dashboard/", "job": job, "trials": _link(page, "text=All trials"), "record": record}


def _link(page: Page, selector: str) -> str:
    return str(page.get_attribute(selector, "href"))


def _save(taken: bytes, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(io.BytesIO(taken)) as picture:
        picture.convert("RGB").quantize(_COLORS).save(path, optimize=True)


def _command(home: str, *words: str) -> str:
    """The output of a command for the service below ``home``."""
    environment = {**os.environ, "TUNEFARM_HOME": home}
    command = [sys.executable, "-m", "tunefarm", *words]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
