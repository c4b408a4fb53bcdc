"""The small network as the shared library that devices load."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

TARGETS: Final = {
    "x86_64": '{"kind":"llvm","mtriple":"x86_64-linux-gnu","mcpu":"x86-64-v3","num-cores":1}',
    "aarch64": '{"kind":"llvm","mtriple":"aarch64-linux-gnu","mcpu":"cortex-a72","num-cores":1}',
}


def build_library_bundle(network: Path, architecture: str, folder: Path) -> Path:
    """Build a bundle of ``network`` in ``folder``, with kernels of one thread; returns the folder that devices load."""
    loaded = folder / "loaded"
    command = [sys.executable, "-m", "tunefarm", "bundle", "build", str(network), "--fresh", "--no-timing"]
    command += ["--form", "library", "--target", TARGETS[architecture], "--output", str(loaded)]
    subprocess.run(command, env=os.environ | {"TUNEFARM_HOME": str(folder / "home")}, check=True, capture_output=True)
    return loaded
