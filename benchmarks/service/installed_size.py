"""Installed size of each role."""

import tomllib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROLES: Final = {
    "client: tunefarm": ("tunefarm", ()),
    "laptop: tunefarm[local]": ("tunefarm", ("local",)),
    "service: tunefarm[server]": ("tunefarm", ("server",)),
    "worker: tunefarm[worker]": ("tunefarm", ("worker",)),
}
ROOT: Final = Path(__file__).parents[2]
MISSING: Final = -1


def installed_bytes(name: str, extras: Sequence[str]) -> dict[str, int]:
    """Size in bytes of each distribution that ``name`` with ``extras`` requires; MISSING if it is not installed.

    Our own are measured in their source folders, because they may be installed in place.
    """
    sizes: dict[str, int] = {}
    done: set[tuple[str, str]] = set()
    waiting = [(name, extra) for extra in ("", *extras)]
    while waiting:
        pending = waiting.pop()
        if pending in done:
            continue
        done.add(pending)
        distribution_name, extra = pending
        try:
            requirements = _requirements(distribution_name, extra)
            sizes.setdefault(distribution_name, _size_bytes(distribution_name))
        except PackageNotFoundError:
            sizes[distribution_name] = MISSING
            continue
        for requirement in requirements:
            needed = canonicalize_name(requirement.name)
            waiting += [(needed, each) for each in ("", *requirement.extras)]
    return sizes


def _requirements(name: str, extra: str) -> list[Requirement]:
    """The requirements of a distribution that apply here, always or because of one of its extras."""
    if _is_ours(name):
        project: dict[str, Any] = tomllib.loads((_folder(name) / "pyproject.toml").read_text(encoding="utf-8"))[
            "project"
        ]
        texts = project["optional-dependencies"].get(extra, ()) if extra else project.get("dependencies", ())
        found = [Requirement(text) for text in texts]
        return [each for each in found if each.marker is None or each.marker.evaluate()]
    found = [Requirement(text) for text in distribution(name).requires or ()]
    return [each for each in found if _is_of(each, extra)]


def _is_of(requirement: Requirement, extra: str) -> bool:
    marker = requirement.marker
    if marker is None:
        return not extra
    if not extra:
        return marker.evaluate({"extra": ""})
    return marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""})


def _size_bytes(name: str) -> int:
    if _is_ours(name):
        files = [file for file in _folder(name).rglob("*") if "build" not in file.parts]
    else:
        found = distribution(name)
        files = [Path(str(found.locate_file(file))) for file in found.files or ()]
    return sum(file.stat().st_size for file in files if file.is_file() and file.suffix != ".pyc")


def _is_ours(name: str) -> bool:
    return name == "tunefarm" or name.startswith("tunefarm-")


def _folder(name: str) -> Path:
    return ROOT / ("client" if name == "tunefarm" else name.removeprefix("tunefarm-"))
