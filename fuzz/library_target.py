"""The check of a shared library's bytes: it refuses or accepts, in bounded time, and never raises."""

import base64
import importlib
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Final

import tvm

from fuzz.mutation import mutated_bytes
from fuzz.seeds import TARGET, seeds
from tunefarm_search.target import canonical_target

LONGEST_S: Final = 5.0


class LibraryTarget:
    """Changed bytes of a library that TVM has built from a function of ours. Nothing is ever loaded."""

    def __init__(self) -> None:
        self._refusal_of = importlib.import_module("tunefarm_schemas.kernel_library.check").refusal_of
        target = tvm.target.Target(json.loads(canonical_target(TARGET, 2).target.canonical))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kernel.so"
            tvm.compile(tvm.ir.load_json(seeds()[2].module_json), target=target).export_library(str(path))
            self._library = path.read_bytes()

    def make(self, chance: random.Random) -> str:
        """A changed library, most changes among its headers; now and then cut short."""
        content = self._library
        if chance.random() < 0.2:
            content = content[: chance.randrange(len(content))]
        head = chance.choice((64, 1024, len(content)))
        changed = mutated_bytes(content[:head], chance) + content[head:]
        return base64.b64encode(changed).decode()

    def check(self, case: str) -> str | None:
        """Ask whether it may be loaded."""
        began_s = time.monotonic()
        try:
            self._refusal_of(base64.b64decode(case))
        except Exception as error:  # noqa: BLE001 - any exception is what is looked for
            return f"{type(error).__name__}: {str(error)[:300]}"
        took_s = time.monotonic() - began_s
        return None if took_s < LONGEST_S else f"it took {took_s:.1f} s"

    def close(self) -> None:
        """Nothing was started."""
