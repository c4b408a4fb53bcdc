"""A virtual environment with the wheels installed, as from an index, and without access to the sources."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.parser import Parser
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement

from tests.servers.command_server import Ended

HANG_S = 300.0


@dataclass(frozen=True)
class Environment:
    """A virtual environment in ``folder``, whose commands run in ``home``."""

    folder: Path
    home: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> Path:
        return Path(sysconfig.get_path("purelib", "venv", {"base": str(self.folder)}))

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables without paths to the sources or to other environments."""
        left_out = ("TUNEFARM_", "PYTHON", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        return kept | {"TUNEFARM_HOME": str(self.home), "PYTHONNOUSERSITE": "1"}

    def run(self, *words: str | Path, **more: str) -> Ended:
        """Run a program of the environment."""
        program = self.folder / "bin" / words[0]
        ended = subprocess.run(
            [program, *words[1:]],
            env=self.variables | more,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HANG_S,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)


def environment_with(folder: Path, wheels: Mapping[str, Path], asked: str) -> Environment:
    """An environment with the packages that pip would install for ``asked``, such as ``tunefarm[local]``.

    Our packages come from their wheels. Others are those of this environment, and only those that are declared.
    """
    made = Environment(folder, folder / "home")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    made.home.mkdir()
    ours = {name_in(wheel): wheel for wheel in wheels.values()}
    names = needed(Requirement(asked), ours)
    for name in sorted(names - set(ours)):
        put(distribution(name), made.packages)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", made.python]
    install = ["install", "--quiet", "--no-index", "--no-deps", *(ours[name] for name in sorted(names & set(ours)))]
    subprocess.run([*pip, *install], check=True, cwd=folder, stdin=subprocess.DEVNULL)
    return made


def put(package: Distribution, folder: Path) -> None:
    """Put the files of a package into ``folder`` as hard links, or as copies on another file system.

    Symbolic links would fail: a confined process may read the environment, and not the files that it links to.
    """
    for file in package.files or ():
        if file.parts[0] == ".." or "__pycache__" in file.parts:
            continue
        source, target = Path(str(package.locate_file(file))), folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            target.hardlink_to(source)
        except OSError:
            shutil.copy2(source, target)


def needed(asked: Requirement, ours: Mapping[str, Path]) -> set[str]:
    """The names of all distributions that ``asked`` requires, including itself."""
    found: dict[str, set[str]] = {}
    waiting = [asked]
    while waiting:
        requirement = waiting.pop()
        name, extras = normal(requirement.name), requirement.extras | {""}
        new = extras - found.setdefault(name, set())
        found[name] |= new
        waiting += [
            each
            for each in map(Requirement, requirements(name, ours))
            if any(each.marker is None or each.marker.evaluate({"extra": extra}) for extra in new)
        ]
    return set(found)


def requirements(name: str, ours: Mapping[str, Path]) -> Sequence[str]:
    if name not in ours:
        return distribution(name).requires or ()
    with ZipFile(ours[name]) as files:
        (metadata,) = [each for each in files.namelist() if each.endswith(".dist-info/METADATA")]
        return Parser().parsestr(files.read(metadata).decode()).get_all("Requires-Dist", [])


def name_in(wheel: Path) -> str:
    return normal(wheel.name.partition("-")[0])


def normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
