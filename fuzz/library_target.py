"""The check of a shared library's bytes: it rejects or accepts, in bounded time, and never raises."""

import base64
import random
import time
from typing import Final

from benchmarks.kernel_library import kernel_library
from fuzz.mutation import mutated_bytes
from tunefarm_schemas.kernel_library.check import refusal_of

LONGEST_S: Final = 5.0


class LibraryTarget:
    """Changed bytes of a kernel's library, which are never loaded."""

    def __init__(self) -> None:
        self._library = kernel_library()
        assert refusal_of(self._library) is None, "changes of what is refused anyway reach few of the checks"

    def make(self, chance: random.Random) -> str:
        """Create a changed library, mostly with changed headers, sometimes truncated."""
        content = self._library
        if chance.random() < 0.2:
            content = content[: chance.randrange(len(content))]
        head = chance.choice((64, 1024, len(content)))
        changed = mutated_bytes(content[:head], chance) + content[head:]
        return base64.b64encode(changed).decode()

    def check(self, case: str) -> str | None:
        """Check whether it may be loaded."""
        began_s = time.monotonic()
        try:
            refusal_of(base64.b64decode(case))
        except Exception as error:  # noqa: BLE001 - any exception is what is looked for
            return f"{type(error).__name__}: {str(error)[:300]}"
        took_s = time.monotonic() - began_s
        return None if took_s < LONGEST_S else f"it took {took_s:.1f} s"

    def close(self) -> None:
        """Nothing was started."""
