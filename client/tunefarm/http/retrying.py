"""When to retry a request: after a transient error response, or without a response."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

WORTH_ANOTHER_TRY: Final = frozenset(
    {HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}
)


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential backoff from ``first_wait_s`` to ``longest_wait_s``, for at most ``patience_s`` in total.

    Event streams use ``stream_patience_s``: their service was reachable before, so it is probably restarting.
    """

    patience_s: float = 10.0
    stream_patience_s: float = 120.0
    first_wait_s: float = 0.1
    longest_wait_s: float = 5.0

    def of_streams(self) -> "RetryPolicy":
        """The policy for event streams."""
        return replace(self, patience_s=max(self.patience_s, self.stream_patience_s))


class Retrying:
    """The retries of one request or of one event stream."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._waited_s = 0.0
        self._next_wait_s = policy.first_wait_s

    def reset(self) -> None:
        """Reset the timers after a success."""
        self._waited_s, self._next_wait_s = 0.0, self._policy.first_wait_s

    def wait_after_answer(
        self, status: int, headers: Mapping[str, str], *, says_try_again: bool = False
    ) -> float | None:
        """Seconds to wait before a retry; None if the response is final.

        Honours ``Retry-After`` in seconds within the remaining patience. Status 429 is retried only with
        ``Retry-After``: without it, the limit does not clear by itself soon.
        """
        asked = headers.get("retry-after", "")
        asked_s = float(asked) if asked.isascii() and asked.isdigit() else None
        is_asked_to_wait = status == HTTPStatus.TOO_MANY_REQUESTS and asked_s is not None
        if not (status in WORTH_ANOTHER_TRY or says_try_again or is_asked_to_wait):
            return None
        return self._wait_s(asked_s)

    def wait_after_failure(self) -> float | None:
        """Seconds to wait before a retry without a response; None if the patience is exhausted."""
        return self._wait_s(None)

    def _wait_s(self, asked_s: float | None) -> float | None:
        # Jitter, so that the clients of a restarting service do not all retry at the same moment.
        own_s = self._next_wait_s * random.uniform(0.5, 1.0)
        wait_s = own_s if asked_s is None else max(asked_s, own_s)
        if self._waited_s + wait_s > self._policy.patience_s:
            return None
        self._next_wait_s = min(self._policy.longest_wait_s, 2 * self._next_wait_s)
        self._waited_s += wait_s
        return wait_s
