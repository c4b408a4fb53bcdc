"""A command that runs the small network once."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tunefarm_schemas.frozen import Frozen


class EdgeContender(Frozen):
    """A command that runs the model once, and the file that it writes its output to."""

    name: str
    command: tuple[str, ...]
    output: str


def of_python(
    name: str, module: str, code: str, given: Sequence[Path], folder: Path, interpreter: str = sys.executable
) -> EdgeContender:
    """``code``, which gets the paths ``given`` and that of its output.

    Raises:
        ModuleNotFoundError: ``interpreter`` lacks ``module``.
    """
    require_module(module, interpreter)
    output = folder / f"{module}-output.bin"
    command = (interpreter, "-c", code, *map(str, given), str(output))
    return EdgeContender(name=name, command=command, output=str(output))


def require_module(module: str, interpreter: str = sys.executable) -> None:
    """Raises ModuleNotFoundError if ``interpreter`` lacks ``module``."""
    if subprocess.run([interpreter, "-c", f"import {module}"], check=False, capture_output=True).returncode:
        raise ModuleNotFoundError(f"{module} is missing", name=module)
