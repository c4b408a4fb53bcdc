"""Frameworks that are missing, or installed in a version that is not read."""

import sys
from importlib import metadata
from pathlib import Path

import pytest

from tunefarm.frontend.framework import Framework, framework_of, refuse_missing, require
from tunefarm.intake.user_file import run_user_file
from tunefarm_schemas.bad_input import BadInput

ABSENT = Framework("tunefarm-absent-framework", "absent", (1,), (2,))


def test_require_returns_the_version_of_an_installed_package() -> None:
    assert require(Framework("numpy", "absent", (1,), (99,))) == metadata.version("numpy")


def test_require_names_the_extra_of_a_missing_package() -> None:
    with pytest.raises(BadInput) as refused:
        require(ABSENT)

    assert "tunefarm-absent-framework is not installed" in refused.value.problem
    assert refused.value.fix == "Run: pip install 'tunefarm[absent]'"


@pytest.mark.parametrize(("oldest", "before"), [((99,), (100,)), ((0, 1), (0, 2))])
def test_require_rejects_versions_outside_of_its_range(oldest: tuple[int, ...], before: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match=f"numpy {metadata.version('numpy')} is installed, but versions from"):
        require(Framework("numpy", "absent", oldest, before))


def test_format_of_tvm_needs_no_framework() -> None:
    with framework_of("json"):
        pass


def test_file_that_imports_a_missing_framework_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "needs_jax.py"
    path.write_text("import jax\n")
    monkeypatch.setitem(sys.modules, "jax", None)

    with pytest.raises(BadInput) as failed:
        run_user_file("model", str(path))
    with pytest.raises(BadInput) as refused:
        refuse_missing(failed.value)

    assert refused.value.fix == "Run: pip install 'tunefarm[stablehlo]'"
