"""A wheel contains all files of its package, with complete metadata."""

import re
from email.message import Message
from email.parser import Parser
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from tests.house.source_files import DISTRIBUTIONS, ROOT, project_settings
from tunefarm.local.diagnosis import FFI_THAT_WORK, TVM_PIN

VERSION = project_settings("client")["version"]


def metadata_of(wheel: Path) -> Message:
    with ZipFile(wheel) as files:
        (name,) = [name for name in files.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(files.read(name).decode())


def requirements_of(distribution: str) -> list[Requirement]:
    settings = project_settings(distribution)
    extras = settings.get("optional-dependencies", {}).values()
    return [Requirement(text) for texts in (settings["dependencies"], *extras) for text in texts]


@pytest.mark.faults
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_wheel_contains_its_package_and_the_licence(wheels: dict[str, Path], distribution: str) -> None:
    package = next((ROOT / distribution).glob("*/__init__.py")).parent
    with ZipFile(wheels[distribution]) as files:
        held = {name for name in files.namelist() if ".dist-info/" not in name}
        (licence,) = [name for name in files.namelist() if name.endswith(".dist-info/licenses/LICENSE")]
        assert files.read(licence) == (ROOT / "LICENSE").read_bytes()
    sources = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert held == {str(path.relative_to(package.parent)) for path in sources}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_wheel_has_complete_metadata(wheels: dict[str, Path], distribution: str) -> None:
    metadata, settings = metadata_of(wheels[distribution]), project_settings(distribution)
    assert (metadata["Name"], metadata["Version"], metadata["License-Expression"]) == (
        settings["name"],
        VERSION,
        "Apache-2.0",
    )
    assert metadata["Summary"].endswith(".")
    assert metadata["Requires-Python"] == ">=3.11"
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_own_distributions_are_pinned_to_this_version(distribution: str) -> None:
    assert project_settings(distribution)["version"] == VERSION
    ours = [each for each in requirements_of(distribution) if each.name.startswith("tunefarm-")]
    assert {str(each.specifier) for each in ours} <= {f"=={VERSION}"}


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_tested_versions_are_within_declared_bounds(distribution: str) -> None:
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    pinned = {name.lower().replace("_", "-"): version for name, version in pins.items()}
    for requirement in requirements_of(distribution):
        name = requirement.name.lower().replace("_", "-")
        if name in pinned:
            assert requirement.specifier.contains(pinned[name]), requirement


def test_doctor_accepts_installable_tvm_versions() -> None:
    bounds = {each.name: each.specifier for each in requirements_of("search")}
    assert bounds["apache-tvm"].contains(TVM_PIN)
    assert all(bounds["apache-tvm-ffi"].contains(ffi) for ffi in FFI_THAT_WORK)
    assert not bounds["apache-tvm-ffi"].contains("0.1.15")
    assert version("apache-tvm-ffi") in FFI_THAT_WORK
