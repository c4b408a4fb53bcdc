"""``tunefarm --version``."""

from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from tunefarm.terminal.console import say

NAMED = ("tunefarm", "apache-tvm", "apache-tvm-ffi")


def _show_version(is_given: bool) -> None:
    if is_given:
        say(", ".join(f"{name} {_version(name)}" for name in NAMED))
        raise typer.Exit


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def common_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the versions of tunefarm and TVM.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Find the fastest schedule of a tensor program, on this machine or on a farm."""
