"""The position of an operation in a distributed trace, in W3C Trace Context format."""

import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import Final, Self

_TEXT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED: Final = 0x01


@dataclass(frozen=True, slots=True)
class Traceparent:
    """Identifies a trace and the span in it that is the parent of the next span.

    ``str()`` returns the value of a ``traceparent`` header (W3C Trace Context, section 3.2); messages carry it too.
    """

    trace_id: str
    span_id: str
    sampled: bool = True

    @classmethod
    def new(cls) -> Self:
        """Start a new trace."""
        return cls(trace_id=secrets.token_hex(16), span_id=secrets.token_hex(8))

    @classmethod
    def of_job(cls, job_id: str) -> Self:
        """Derive the trace from a job's id, so that processes that share only the id share the trace."""
        identity = hashlib.sha256(b"tunefarm job " + job_id.encode()).hexdigest()
        return cls(trace_id=identity[:32], span_id=identity[32:48])

    @classmethod
    def parse(cls, text: str | None) -> Self | None:
        """Parse a header or a message; None if it is malformed, as the standard requires."""
        match = _TEXT.fullmatch(text) if text is not None and len(text) <= 128 else None
        if match is None or (text is not None and text.startswith("00-") and match[4] is not None):
            return None
        if not int(match[1], 16) or not int(match[2], 16):
            return None
        return cls(trace_id=match[1], span_id=match[2], sampled=bool(int(match[3], 16) & _SAMPLED))

    def child(self) -> "Traceparent":
        """Create another span of the same trace."""
        return Traceparent(self.trace_id, secrets.token_hex(8), self.sampled)

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02x}"
