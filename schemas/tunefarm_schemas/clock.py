"""Times as text, in the format of records and events."""

from datetime import UTC, datetime


def utc_now() -> str:
    """The current time as RFC 3339 text in UTC, with microseconds."""
    return datetime.now(UTC).isoformat()
