"""Locations of the project's own source."""

import ast
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DISTRIBUTIONS = ("schemas", "sandbox", "search", "workers", "services", "client", "deploy/edge/agent")


def python_files(*folders: str) -> list[Path]:
    """Every Python file below the named folders of the project."""
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in found if not {"build", "__pycache__"} & set(path.relative_to(ROOT).parts)]


def project_settings(distribution: str) -> dict[str, Any]:
    """The ``[project]`` table of one distribution."""
    text = (ROOT / distribution / "pyproject.toml").read_text(encoding="utf-8")
    settings: dict[str, Any] = tomllib.loads(text)["project"]
    return settings


def imported_names(path: Path) -> set[str]:
    """The top-level packages that a file imports anywhere."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.partition(".")[0])
    return names
