"""The release of NVIDIA's compiler of CUDA source."""

import re
import subprocess
from dataclasses import dataclass
from typing import Final

_RELEASE: Final = re.compile(r"release (\d+)\.(\d+), V([\d.]+)")
_ANSWER_S: Final = 60.0
_TAIL_CHARACTERS: Final = 500


class NotNvcc(Exception):
    """Raised with the reason why a program cannot be used as NVIDIA's compiler."""


@dataclass(frozen=True)
class NvccRelease:
    """``major`` and ``minor`` are those of CUDA. ``version`` is the compiler's own, such as ``13.0.88``."""

    major: int
    minor: int
    version: str

    @classmethod
    def of(cls, path: str) -> "NvccRelease":
        """Ask the program ``path`` for its version.

        Raises:
            NotNvcc: it does not run, or is another program.
        """
        try:
            ended = subprocess.run(
                (path, "--version"), check=False, capture_output=True, timeout=_ANSWER_S, stdin=subprocess.DEVNULL
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotNvcc(f"{path} does not run: {error}") from error
        if ended.returncode != 0:
            wrote = (ended.stdout + ended.stderr).decode(errors="replace")[-_TAIL_CHARACTERS:].strip()
            raise NotNvcc(f"{path} --version failed: {wrote or ended.returncode}")
        found = _RELEASE.search(ended.stdout.decode(errors="replace"))
        if found is None:
            raise NotNvcc(f"{path} is not NVIDIA's compiler.")
        return cls(int(found[1]), int(found[2]), found[3])
