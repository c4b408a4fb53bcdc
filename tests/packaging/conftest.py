"""Wheels of all distributions, built from a copy of their sources, as ``make wheels`` builds them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source_files import DISTRIBUTIONS, ROOT, project_settings

LEFT_BY_BUILDS = shutil.ignore_patterns("build", "__pycache__", "*.egg-info")


@pytest.fixture(scope="package")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of each distribution, by the distribution's folder."""
    made = tmp_path_factory.mktemp("wheels")
    shutil.copy(ROOT / "LICENSE", made)
    for name in DISTRIBUTIONS:
        shutil.copytree(ROOT / name, made / name, ignore=LEFT_BY_BUILDS, symlinks=True)
    command = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-index",
    ]
    command += ["--no-build-isolation", "--wheel-dir", "dist", *(f"./{name}" for name in DISTRIBUTIONS)]
    subprocess.run(command, check=True, cwd=made, stdin=subprocess.DEVNULL)
    names = {name: project_settings(name)["name"].replace("-", "_") for name in DISTRIBUTIONS}
    return {name: next((made / "dist").glob(f"{names[name]}-[0-9]*.whl")) for name in DISTRIBUTIONS}
