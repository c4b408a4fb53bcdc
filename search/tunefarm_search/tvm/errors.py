"""Exceptions that TVM raises for invalid input."""

TVM_ERRORS = (ValueError, TypeError, RuntimeError, IndexError, KeyError, AttributeError, AssertionError)
"""TVM's own error types derive from these."""

LONGEST_TEXT = 300


def last_line(error: Exception) -> str:
    """The line of an error that states the reason: TVM puts it last, after a backtrace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:LONGEST_TEXT]
