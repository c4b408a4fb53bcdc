"""Calls that have destroyed machines, or execute data as code, do not appear in the sources."""

import ast
import re
from pathlib import Path

from tests.house.source_files import DISTRIBUTIONS, ROOT, imported_names, python_files

PICKLES = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}
WORD = re.compile(r"\w+")
DELETES_WHAT_A_BUILDER_NAMES = re.compile(r"\b(tune_tir|tune_tasks|remove_build_dir|RemoveBuildArtifact)\b")


def code_of(path: Path) -> str:
    """The file without docstrings and comments, which may mention forbidden calls."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            node.value.value = ""
    return ast.unparse(tree)


def names_deleting_callback(path: Path) -> bool:
    pattern = DELETES_WHAT_A_BUILDER_NAMES
    return bool(pattern.search(path.read_text(encoding="utf-8")) and pattern.search(code_of(path)))


def calls(path: Path, *names: str) -> bool:
    text = path.read_text(encoding="utf-8")
    if not any(name in text for name in names):
        return False
    called = (node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return any(isinstance(call, ast.Name) and call.id in names for call in called)


def test_sources_never_pickle() -> None:
    naming = [path for path in python_files(*DISTRIBUTIONS) if PICKLES & set(WORD.findall(path.read_text("utf-8")))]
    assert not [path for path in naming if PICKLES & imported_names(path)]


def test_tvm_callback_that_deletes_folders_is_not_used() -> None:
    files = python_files(*DISTRIBUTIONS, "tests")
    # This program runs the callback on tickets, confined to one writable folder.
    confined = ROOT / "tests" / "client_remote" / "stock_tuning.py"
    assert "may_write_only_below(folder)" in code_of(confined)
    assert not [
        path for path in files if path not in {Path(__file__).resolve(), confined} and names_deleting_callback(path)
    ]


def test_benchmark_runs_tvm_tuner_with_real_builder() -> None:
    using = [path.name for path in python_files("benchmarks") if names_deleting_callback(path)]
    assert using == ["stock_tuner.py"]
    assert "PyBuilder" not in code_of(ROOT / "benchmarks" / "comparison" / "stock_tuner.py")


def test_eval_and_exec_are_confined_to_intake() -> None:
    allowed = {"intake", "confined"}
    files = python_files(*DISTRIBUTIONS)
    found = [path for path in files if calls(path, "eval", "exec") and not allowed & set(path.parts)]
    assert not found


def test_client_prints_only_through_console() -> None:
    files = python_files("client")
    printing = [path.name for path in files if calls(path, "print", "pprint")]
    assert printing == ["console.py"]
