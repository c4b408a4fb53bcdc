"""Commands and options that documents and messages name exist."""

import os
import re
from pathlib import Path

import pytest

from tests.house.command_help import assert_exists, subcommands
from tests.house.source_files import ROOT

DOCUMENTS = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benchmarks/README.md",
    "client/README.md",
    *(str(p.relative_to(ROOT)) for p in sorted((ROOT / "docs").rglob("*.md"))),
)
NAMED_COMMAND = re.compile(r"tunefarm ([a-z-]+) ([a-z-]+)")
FENCE = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def shown_lines(starting_with: str) -> list[str]:
    """The command lines of all documents that begin with one word; continued lines are joined."""
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in DOCUMENTS if (ROOT / name).exists()]
    blocks = [block.replace("\\\n", " ") for text in texts for block in FENCE.findall(text)]
    lines = {line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()}
    return sorted(line for line in lines if line.split()[:1] == [starting_with])


@pytest.mark.parametrize("line", shown_lines("tunefarm"))
def test_documented_tunefarm_command_exists(line: str) -> None:
    assert_exists(line)


@pytest.mark.parametrize("line", shown_lines("make"))
def test_documented_make_target_exists(line: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert line.split()[1] in targets


def test_named_subcommands_exist() -> None:
    groups = {each for each in subcommands() if subcommands(each)}
    named = [
        (path.relative_to(ROOT), group, name)
        for path in (*(ROOT / name for name in DOCUMENTS), *sources_with_messages())
        for group, name in NAMED_COMMAND.findall(path.read_text(encoding="utf-8"))
        if group in groups
    ]
    assert len(named) > 100, "the pattern has lost the commands"
    assert [each for each in named if each[2] not in subcommands(each[1])] == []


def sources_with_messages() -> list[Path]:
    folders = ("client", "services", "workers", "search", "sandbox", "schemas", "deploy")
    kinds = {".py", ".html", ".service", ".timer", ".yaml", ".yml", ".sh"}
    return [path for name in folders for path in sorted((ROOT / name).rglob("*")) if path.suffix in kinds]


def test_continuous_integration_runs_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text(encoding="utf-8")


def test_document_links_resolve() -> None:
    links = [
        (name, link)
        for name in DOCUMENTS
        for link in re.findall(r"\]\(([^)#:]+)\)", (ROOT / name).read_text(encoding="utf-8"))
    ]
    broken = [(name, link) for name, link in links if not ((ROOT / name).parent / link).exists()]
    assert not broken


def test_documented_source_paths_exist() -> None:
    named = [
        (name, path)
        for name in DOCUMENTS
        if "/adr/" not in name  # decisions describe the sources of their time
        for path in re.findall(r"`((?:tests|search|sandbox|schemas|workers|services|client)/[\w./-]+)`", text_of(name))
    ]
    assert [(name, path) for name, path in named if not (ROOT / path).exists()] == []


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")
