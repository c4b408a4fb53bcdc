"""Every command that the documents show exists, with the options that they show."""

import io
import os
import re
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from unittest.mock import patch

import pytest

from tests.house.source_files import ROOT
from tunefarm.command_line import main

DOCUMENTS = (
    "README.md",
    "benchmarks/README.md",
    *(str(p.relative_to(ROOT)) for p in sorted((ROOT / "docs").rglob("*.md"))),
)
FENCE = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def shown_lines(starting_with: str) -> list[str]:
    """The command lines of all documents that begin with one word; continued lines are joined."""
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in DOCUMENTS if (ROOT / name).exists()]
    blocks = [block.replace("\\\n", " ") for text in texts for block in FENCE.findall(text)]
    lines = {line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()}
    return sorted(line for line in lines if line.split()[:1] == [starting_with])


def words_before_options(line: str) -> list[str]:
    """The names of the (sub)command: what is made of lower-case letters before anything else."""
    words = []
    for word in line.split()[1:]:
        if not re.fullmatch(r"[a-z]+(-[a-z]+)*", word):
            break
        words.append(word)
    return words


@cache
def help_of(arguments: tuple[str, ...]) -> str:
    shown = io.StringIO()
    wide = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    with patch.dict(os.environ, wide), redirect_stdout(shown), redirect_stderr(shown):
        status = main([*arguments, "--help"])
    return shown.getvalue() if status == 0 else f"exit {status}: {shown.getvalue()}"


@pytest.mark.parametrize("line", shown_lines("tunefarm"))
def test_a_tunefarm_command_in_the_documents_exists_with_its_options(line: str) -> None:
    shown = help_of(tuple(words_before_options(line)))
    assert shown.lstrip().startswith("Usage"), shown
    assert set(OPTION.findall(line)) <= set(OPTION.findall(shown))


@pytest.mark.parametrize("line", shown_lines("make"))
def test_a_make_target_in_the_documents_exists(line: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert line.split()[1] in targets


def test_continuous_integration_runs_what_a_person_runs() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text(encoding="utf-8")


def test_links_between_documents_lead_somewhere() -> None:
    links = [
        (name, link)
        for name in DOCUMENTS
        for link in re.findall(r"\]\(([^)#:]+)\)", (ROOT / name).read_text(encoding="utf-8"))
    ]
    broken = [(name, link) for name, link in links if not ((ROOT / name).parent / link).exists()]
    assert not broken
