"""The only module that writes to the user's terminal. Escapes control characters of untrusted text."""

import json
import sys
import traceback
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from tunefarm_schemas.visible_text import visible, visible_json

if TYPE_CHECKING:
    from tunefarm_schemas.frozen import JsonValue


def say(text: object = "", *, stream: TextIO | None = None) -> None:
    """Print lines of text to ``stream`` (standard output) with control characters escaped.

    Also escapes characters that the stream's encoding lacks, which would raise UnicodeEncodeError.
    """
    stream = stream or sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    shown = visible(str(text)).encode(encoding, "backslashreplace").decode(encoding)
    print(shown, file=stream, flush=True)


def complain(text: object) -> None:
    """Print lines of text to standard error with control characters escaped."""
    say(text, stream=sys.stderr)


def say_json(value: "JsonValue") -> None:
    """Print one JSON document on one line to standard output."""
    print(visible_json(json.dumps(value)), flush=True)


def say_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a traceback with control characters escaped. For ``sys.excepthook``."""
    complain("".join(traceback.format_exception(kind, error, trace)).rstrip("\n"))
