"""Structured logs: one line, one event, with the ids of the work it belongs to.

Everything logged inside ``bind(job_id=...)`` carries that id, through all called functions.
"""

import io
import logging
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, Final, TextIO

import structlog
from structlog.typing import ExcInfo, Processor

from tunefarm_schemas.visible_text import visible, visible_json, visible_line

HIDDEN: Final = "[hidden]"
_SECRET_NAMES: Final = re.compile(r"authorization|password|secret|cookie|api_?token|private_?key", re.IGNORECASE)
_TOKEN: Final = re.compile(r"\btfk_([A-Za-z0-9-]+)_[A-Za-z0-9_-]{8,}")
_BEARER: Final = re.compile(r"\bBearer\s+[^\s\"',]+", re.IGNORECASE)
_URL_PASSWORD: Final = re.compile(r"(?<=://)([^\s/:@]*):[^\s/@]+(?=@)")


def without_secrets(text: str) -> str:
    """Return ``text`` without the secret part of tokens and the passwords of URLs."""
    if "tfk_" in text:
        text = _TOKEN.sub(rf"tfk_\1_{HIDDEN}", text)
    if "earer" in text:
        text = _BEARER.sub(f"Bearer {HIDDEN}", text)
    return _URL_PASSWORD.sub(rf"\1:{HIDDEN}", text) if "://" in text else text


def hide_secrets(_logger: object, _method: str, line: MutableMapping[str, object]) -> MutableMapping[str, object]:
    """A structlog processor that hides values by their names and by their format."""
    for name, value in line.items():
        if _SECRET_NAMES.search(name):
            line[name] = HIDDEN
        elif isinstance(value, str):
            line[name] = without_secrets(value)
    return line


LEVELS: Final[Mapping[str, int]] = logging.getLevelNamesMapping()
MAX_EVENT_LENGTH: Final = 80
_LOUD_LIBRARIES: Final = ("httpx", "httpcore", "asyncio", "urllib3", "alembic", "kombu", "amqp", "watchfiles")


def configure_logs(
    service: str,
    level: str = "info",
    json: bool = True,
    stream: TextIO | None = None,
    count: Callable[[str, str], None] = lambda _level, _event: None,
) -> None:
    """Send every log line of this process to ``stream`` (standard error), including those of libraries.

    Args:
        service: the kind of process: api, tuner, worker.
        level: the least severe level that is shown, such as ``info``; an unknown one is read as ``info``.
        json: one JSON object per line, for machines; otherwise text for people.
        stream: destination of the lines.
        count: called with level and event of each of our own lines from ``info`` on, shown or not; events are constant
            texts, so there are few.
    """
    output = stream or sys.stderr
    number = LEVELS.get(level.upper(), logging.INFO)
    shared = _shared_processors(service)
    structlog.configure(
        processors=[
            *shared,
            _counting(count),  # before filtering: alerts count events at any log level
            structlog.stdlib.filter_by_level,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(min(number, logging.INFO)),
        # A process that configures twice, as tests do, must not keep the first configuration.
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(output)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=_last_processors(output, json=json))
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    for name in _LOUD_LIBRARIES:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "celery"):
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True


def warn_on_standard_error() -> None:
    """Print warnings and errors of a command, or a program that tunes by itself, to standard error, one per line.

    structlog's default writes to standard output, which is reserved for a command's JSON. Leaves a program alone that
    has configured structlog.
    """
    if structlog.is_configured():
        return
    structlog.configure(
        processors=[structlog.stdlib.add_log_level, structlog.processors.format_exc_info, _plain_line],
        # Looked up for each line, because a progress display replaces the stream.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        cache_logger_on_first_use=False,
    )


def _plain_line(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> str:
    level, event, trace = line.pop("level"), line.pop("event"), line.pop("exception", None)
    facts = ", ".join(f"{name}: {value}" for name, value in line.items())
    shown = visible_line(f"tunefarm: {level}: {event}{f' ({facts})' if facts else ''}")
    return shown if trace is None else f"{shown}\n{visible(str(trace))}"


@contextmanager
def bind(**ids: object) -> Iterator[None]:
    """Add ``ids`` such as job_id or candidate to every log line of this context until it ends. Omits None."""
    known = {name: value for name, value in ids.items() if value is not None}
    with structlog.contextvars.bound_contextvars(**known):
        yield


def _shared_processors(service: str) -> list[Processor]:
    def add_service(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        line.setdefault("service", service)
        return line

    return [
        structlog.contextvars.merge_contextvars,
        add_service,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
    ]


def _counting(count: Callable[[str, str], None]) -> Processor:
    def processor(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        count(line["level"], str(line["event"])[:MAX_EVENT_LENGTH])
        return line

    return processor


def _last_processors(output: TextIO, *, json: bool) -> list[Processor]:
    hidden: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if json:
        return [
            *hidden,
            structlog.processors.format_exc_info,
            hide_secrets,
            structlog.processors.JSONRenderer(ensure_ascii=False, default=str),
            _escaped,
        ]
    return [
        *hidden,
        hide_secrets,
        _each_visible,
        structlog.dev.ConsoleRenderer(colors=output.isatty(), exception_formatter=_traceback, timestamp_key="at"),
    ]


def _escaped(_logger: Any, _method: str, line: Any) -> str:
    return visible_json(line)


def _each_visible(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape text that would end the line or control a terminal: names and messages come from outside."""
    for name, value in line.items():
        if name in {"stack", "exception"}:
            line[name] = _indented(str(value))
        elif name != "exc_info":
            line[name] = visible_line(str(value))
    return line


def _traceback(output: TextIO, error: ExcInfo) -> None:
    text = io.StringIO()
    structlog.dev.plain_traceback(text, error)
    output.write(_indented(text.getvalue()))


def _indented(text: str) -> str:
    """Indent each line, so that no line of an error's message looks like a log line."""
    return textwrap.indent(visible(text), "  ", lambda _line: True)
