"""Files and folders stay small."""

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.house.source_files import DISTRIBUTIONS, ROOT, python_files

LARGEST_FILE_LINES = 400
MAX_MODULES = 15
MIGRATIONS = "services/tunefarm_services/store/migrations/versions"
"""Has a file for each revision of the schema; they are never moved or removed."""
GENERIC_NAMES = {"utils", "util", "helpers", "helper", "manager", "misc", "base"}
CLASS = re.compile(r"^[ \t]*class[ \t]+(\w+)", re.MULTILINE)
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_distribution_has_one_typed_documented_package(distribution: str) -> None:
    packages = [path.parent for path in (ROOT / distribution).glob("*/__init__.py")]
    assert len(packages) == 1
    assert (packages[0] / "py.typed").exists()
    assert (packages[0] / "__init__.py").read_text(encoding="utf-8").startswith('"""')


def test_files_have_at_most_400_lines() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in python_files(*DISTRIBUTIONS, "benchmarks", "fuzz", "tests")
        if (lines := path.read_text(encoding="utf-8").count("\n")) > LARGEST_FILE_LINES
    }
    assert not long


def test_file_names_are_specific() -> None:
    files = python_files(*DISTRIBUTIONS, "benchmarks", "fuzz")
    assert not [path for path in files if GENERIC_NAMES & set(path.stem.split("_"))]


def test_sources_have_no_todo_markers() -> None:
    files = python_files(*DISTRIBUTIONS, "benchmarks", "fuzz")
    assert not [path for path in files if UNFINISHED.search(path.read_text(encoding="utf-8"))]


def test_folders_have_at_most_15_modules() -> None:
    files = python_files(*DISTRIBUTIONS, "benchmarks", "fuzz", "tests")
    modules_by_folder = Counter(str(path.parent.relative_to(ROOT)) for path in files)
    del modules_by_folder[MIGRATIONS]
    assert not {folder: count for folder, count in modules_by_folder.items() if count > MAX_MODULES}


def test_class_names_are_unique() -> None:
    named: defaultdict[str, list[Path]] = defaultdict(list)
    for path in python_files(*DISTRIBUTIONS, "benchmarks", "fuzz"):
        for name in CLASS.findall(path.read_text(encoding="utf-8")):
            named[name].append(path)
    # A docstring may have such a line as well, so what looks like two classes is parsed.
    repeated = {
        name: [path for path in paths if defines(path, name)] for name, paths in named.items() if len(paths) > 1
    }
    assert not {name: paths for name, paths in repeated.items() if len(paths) > 1}


def defines(path: Path, name: str) -> bool:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return any(isinstance(node, ast.ClassDef) and node.name == name for node in nodes)
