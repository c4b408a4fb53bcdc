"""Files and folders stay small."""

import ast
import re
from collections import Counter, defaultdict

import pytest

from tests.house.source_files import DISTRIBUTIONS, ROOT, python_files

LARGEST_FILE_LINES = 400
MAX_MODULES = 15
NAMES_THAT_SAY_NOTHING = {"utils", "util", "helpers", "helper", "manager", "misc", "base"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_every_distribution_has_one_typed_package_that_says_what_it_owns(distribution: str) -> None:
    packages = [path.parent for path in (ROOT / distribution).glob("*/__init__.py")]
    assert len(packages) == 1
    assert (packages[0] / "py.typed").exists()
    assert (packages[0] / "__init__.py").read_text(encoding="utf-8").startswith('"""')


def test_no_file_is_longer_than_a_reader_holds_in_mind() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in python_files(*DISTRIBUTIONS, "benchmarks", "fuzz", "tests")
        if (lines := path.read_text(encoding="utf-8").count("\n")) > LARGEST_FILE_LINES
    }
    assert not long


def test_no_file_has_a_generic_name() -> None:
    files = python_files(*DISTRIBUTIONS, "benchmarks", "fuzz")
    assert not [path for path in files if NAMES_THAT_SAY_NOTHING & set(path.stem.split("_"))]


def test_sources_have_no_todo_markers() -> None:
    files = python_files(*DISTRIBUTIONS, "benchmarks", "fuzz")
    assert not [path for path in files if UNFINISHED.search(path.read_text(encoding="utf-8"))]


def test_no_folder_holds_more_modules_than_a_reader_takes_in_at_a_glance() -> None:
    files = python_files(*DISTRIBUTIONS, "benchmarks", "fuzz", "tests")
    modules_by_folder = Counter(str(path.parent.relative_to(ROOT)) for path in files)
    assert not {folder: count for folder, count in modules_by_folder.items() if count > MAX_MODULES}


def test_no_two_classes_share_a_name() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in python_files(*DISTRIBUTIONS):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert not {name: files for name, files in places.items() if len(files) > 1}
