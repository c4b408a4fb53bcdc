"""Log lines are machine-readable, can be correlated by ids, and contain no secrets."""

import io
import json
import logging

import pytest
import structlog

from tunefarm_services.telemetry.logs import bind, configure_logs


@pytest.fixture
def output():
    root = logging.getLogger()
    before = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logs("api", json=True, stream=stream)
    yield stream
    root.handlers[:], root.level = before[0], before[1]
    structlog.reset_defaults()


def lines(output: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.getvalue().splitlines()]


def test_log_line_has_event_time_and_service(output):
    structlog.get_logger("here").info("job accepted", trials=3)
    (line,) = lines(output)
    assert (line["event"], line["service"], line["level"], line["trials"]) == ("job accepted", "api", "info", 3)
    assert str(line["at"]).endswith("Z")


def test_log_lines_carry_bound_ids(output):
    log = structlog.get_logger()
    with bind(job_id="j1", request_id=None):
        with bind(candidate=7):
            log.info("inner")
        log.info("outer")
    log.info("outside")
    inner, outer, outside = lines(output)
    assert (inner["job_id"], inner["candidate"], "request_id" in inner) == ("j1", 7, False)
    assert (outer["job_id"], "candidate" in outer) == ("j1", False)
    assert "job_id" not in outside


def test_library_log_line_has_same_format(output):
    with bind(job_id="j1"):
        logging.getLogger("uvicorn.error").warning("slow %s", "client")
    (line,) = lines(output)
    assert (line["event"], line["job_id"], line["level"]) == ("slow client", "j1", "warning")


@pytest.mark.parametrize(
    ("values", "secret"),
    [
        ({"note": "Authorization: Bearer abcdefghijkl"}, "abcdefghijkl"),
        ({"note": "tfk_01ab_c2VjcmV0LXNlY3JldA"}, "c2VjcmV0"),
        ({"url": "rediss://pool:hunter22@host:6379/0"}, "hunter22"),
        ({"password": "hunter22"}, "hunter22"),
        ({"note": "postgresql+psycopg://tunefarm:hunter22@db/tunefarm"}, "hunter22"),
    ],
)
def test_log_hides_secrets(output, values, secret):
    structlog.get_logger().info("connecting", **values)
    assert secret not in output.getvalue()
    assert "[hidden]" in output.getvalue()


def test_logged_traceback_hides_secrets(output):
    try:
        raise RuntimeError("cannot reach redis://:hunter22@broker")
    except RuntimeError:
        structlog.get_logger().exception("broker lost")
    (line,) = lines(output)
    assert "RuntimeError" in str(line["exception"])
    assert "hunter22" not in output.getvalue()


def test_own_log_lines_are_counted_by_event(output):
    counted = []
    configure_logs("api", stream=io.StringIO(), count=lambda level, event: counted.append((level, event)))
    structlog.get_logger().warning("the broker is away", reason="refused")
    structlog.get_logger().debug("unseen")
    logging.getLogger("uvicorn.error").warning("a library's line, which may be any text")
    assert counted == [("warning", "the broker is away")]


def test_text_format_is_not_json(output):
    stream = io.StringIO()
    configure_logs("api", "warning", json=False, stream=stream)
    structlog.get_logger().info("unseen")
    structlog.get_logger().warning("queue is full", room=0)
    assert "queue is full" in stream.getvalue()
    assert "unseen" not in stream.getvalue()
    assert not stream.getvalue().startswith("{")


FORGED = "x\n2026-01-01T00:00:00Z [info     ] job finished \x1b[2J\x9b2J\u202e"


def test_text_log_escapes_newlines_and_control_characters():
    stream = io.StringIO()
    configure_logs("api", "warning", json=False, stream=stream)
    structlog.get_logger().warning("name taken", name=FORGED, nested={"name": FORGED})
    logging.getLogger("library").warning("about %s", FORGED)
    try:
        raise RuntimeError(FORGED)
    except RuntimeError:
        structlog.get_logger().exception("broken")
    shown = stream.getvalue()
    assert not any(line.startswith("2026-01-01") for line in shown.splitlines())
    assert not set("\x1b\x9b\u202e") & set(shown)


def test_json_log_escapes_control_characters(output):
    structlog.get_logger().info("name taken", name=FORGED + "\x7f\udc80")
    assert not set("\x1b\x9b\u202e\x7f\udc80") & set(output.getvalue())
    (line,) = lines(output)
    assert line["name"] == FORGED + "\x7f\udc80"
