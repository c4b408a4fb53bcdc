"""Wheels of all distributions, built from a copy of their sources, as ``make wheels`` builds them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source_files import DISTRIBUTIONS, ROOT, project_settings

BUILD = (
    *(sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps", "--no-index"),
    *("--no-build-isolation", "--wheel-dir", "dist"),
)
LEFT_BY_BUILDS = shutil.ignore_patterns("build", "__pycache__", "*.egg-info")


class Wheels(dict[str, Path]):
    """The wheel of each distribution, by the distribution's folder; it is built when it is asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        shutil.copy(ROOT / "LICENSE", folder)

    def __missing__(self, name: str) -> Path:
        shutil.copytree(ROOT / name, self._folder / name, ignore=LEFT_BY_BUILDS, symlinks=True)
        subprocess.run([*BUILD, f"./{name}"], check=True, cwd=self._folder, stdin=subprocess.DEVNULL)
        project = project_settings(name)["name"].replace("-", "_")
        self[name] = next((self._folder / "dist").glob(f"{project}-[0-9]*.whl"))
        return self[name]


@pytest.fixture(scope="package")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Wheels:
    return Wheels(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="package")
def all_wheels(wheels: Wheels) -> dict[str, Path]:
    """Those of all distributions."""
    return {name: wheels[name] for name in DISTRIBUTIONS}
