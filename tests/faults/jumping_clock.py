"""A wall clock that a test sets forwards and back."""

import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

HOUR_S = 3600


@dataclass(frozen=True)
class Clock:
    """The wall clock of the commands that run with ``environment``."""

    file: Path
    environment: dict[str, str]

    def set_ahead(self, seconds: int) -> None:
        with self.file.open("r+b") as file:
            file.write(struct.pack("=q", seconds))

    @classmethod
    def made_in(cls, folder: Path) -> Self:
        library, file = folder / "jumping_clock.so", folder / "ahead_s"
        source = Path(__file__).with_name("jumping_clock.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source)], check=True)
        file.write_bytes(struct.pack("=q", 0))
        return cls(file, {"LD_PRELOAD": str(library), "JUMPING_CLOCK": str(file)})
