"""Every distribution declares what it imports, at a pinned version."""

import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import packages_distributions

import pytest

from tests.house.source_files import DISTRIBUTIONS, ROOT, imported_names, project_settings, python_files

PIN = re.compile(r"^[A-Za-z0-9_.-]+==[A-Za-z0-9_.!+-]+$")


def normal(name: str) -> str:
    """The normal form of a distribution's name (PEP 503), without extras or versions."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", name)[0]).lower()


def declared(distribution: str) -> set[str]:
    settings = project_settings(distribution)
    extras = settings.get("optional-dependencies", {}).values()
    return {normal(name) for names in (settings["dependencies"], *extras) for name in names}


def reachable(distribution: str) -> set[str]:
    """Its declared dependencies, including those of our own distributions among them."""
    names = declared(distribution)
    ours = {normal(project_settings(other)["name"]): other for other in DISTRIBUTIONS}
    for name in sorted(names & set(ours)):
        names |= reachable(ours[name]) if ours[name] != distribution else set()
    return names


def pins() -> list[str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_imported_packages_are_declared(distribution: str) -> None:
    own = next((ROOT / distribution).glob("*/__init__.py")).parent.name
    allowed = own_or_reachable(distribution)
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in python_files(distribution)
        for name in imported_names(path) - {own} - set(sys.stdlib_module_names)
        if not {normal(provider) for provider in providers().get(name, [name])} & allowed
    }
    assert not missing


@cache
def providers() -> Mapping[str, list[str]]:
    """The distributions of each importable name; reading them takes half a second."""
    return packages_distributions()


def own_or_reachable(distribution: str) -> set[str]:
    names = reachable(distribution)
    return names | {package_alias(name) for name in names}


def package_alias(name: str) -> str:
    """In a checkout that is only on the path, our packages have no installed distribution."""
    return name.replace("-", "_")


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_declared_dependencies_are_pinned(distribution: str) -> None:
    pinned = {normal(line) for line in pins()}
    ours = {normal(project_settings(other)["name"]) for other in DISTRIBUTIONS}
    either_wheel = {"xgboost"} if "xgboost-cpu" in pinned else set()
    assert declared(distribution) - ours - either_wheel <= pinned


def test_constraints_pin_one_version_without_source() -> None:
    assert all(PIN.match(line) for line in pins())
    names = [normal(line) for line in pins()]
    assert len(names) == len(set(names))
