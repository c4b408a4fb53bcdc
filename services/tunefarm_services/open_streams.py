"""Open event streams of each tenant in one process, those of the API and of the pages together."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def counted_stream(streams: Counter[str], tenant: str) -> Iterator[None]:
    """Count a stream of ``tenant`` while it is open. A tenant without streams has no entry."""
    streams[tenant] += 1
    try:
        yield
    finally:
        streams[tenant] -= 1
        if not streams[tenant]:
            del streams[tenant]
