"""The help texts of the commands."""

import io
import os
import re
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from unittest.mock import patch

from tunefarm.cli.command_line import main

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def assert_exists(line: str) -> None:
    """Assert that the command in ``line`` exists and has every option shown there."""
    shown = help_of(tuple(words_before_options(line)))
    assert shown.lstrip().startswith("Usage"), shown
    assert set(OPTION.findall(line)) <= set(OPTION.findall(shown))


def words_before_options(line: str) -> list[str]:
    """The names of the (sub)command: what is made of lower-case letters before anything else."""
    words = []
    for word in line.split()[1:]:
        if not re.fullmatch(r"[a-z]+(-[a-z]+)*", word):
            break
        words.append(word)
    return words


@cache
def subcommands(*group: str) -> frozenset[str]:
    """The commands of a group, such as ``records``; without it all commands, and none of what is no group."""
    _, _, listed = help_of(group).partition(" Commands ─")
    return frozenset(re.findall(r"^[│ ]+([a-z][a-z-]*)  ", listed, re.MULTILINE))


@cache
def help_of(arguments: tuple[str, ...]) -> str:
    shown = io.StringIO()
    wide = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    with patch.dict(os.environ, wide), redirect_stdout(shown), redirect_stderr(shown):
        status = main([*arguments, "--help"])
    return shown.getvalue() if status == 0 else f"exit {status}: {shown.getvalue()}"
