"""Reads parameters from the address of a page."""

from starlette.requests import Request

_MAX_DIGITS = 16


def number_in(request: Request, name: str) -> int | None:
    """A parameter as a number from 0; None without it, or if it is something else."""
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None
