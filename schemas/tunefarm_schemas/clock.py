"""Time as text, the way records and events carry it."""

from datetime import UTC, datetime


def utc_now() -> str:
    """The present moment as RFC 3339 text in UTC, with microseconds."""
    return datetime.now(UTC).isoformat()
