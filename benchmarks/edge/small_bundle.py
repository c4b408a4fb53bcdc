"""The small network as the shared library that devices load."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
TARGETS: Final = {
    "x86_64": '{"kind":"llvm","mtriple":"x86_64-linux-gnu","mcpu":"x86-64-v3","num-cores":1}',
    "aarch64": '{"kind":"llvm","mtriple":"aarch64-linux-gnu","mcpu":"cortex-a72","num-cores":1}',
}
_SECTIONS: Final = ("-ffunction-sections", "-Wl,--gc-sections")
_GLUE: Final = """
#include "abi.h"
#include "model.h"
static const TunefarmBundle bundle = {
    1, &NAME, tunefarm_model_run, tunefarm_last_error, tunefarm_start_threads, tunefarm_release_workspaces};
__attribute__((visibility("default"))) const TunefarmBundle *tunefarm_bundle(void) { return &bundle; }
"""


def build_library_bundle(network: Path, architecture: str, compiler: Sequence[str], folder: Path) -> Path:
    """Build a bundle of ``network`` in ``folder``, with kernels of one thread; returns the folder that devices load."""
    built, loaded = folder / "built", folder / "loaded"
    command = [sys.executable, "-m", "tunefarm", "bundle", "build", str(network), "--fresh"]
    command += ["--target", TARGETS[architecture], "--output", str(built)]
    subprocess.run(command, env=os.environ | {"TUNEFARM_HOME": str(folder / "home")}, check=True, capture_output=True)
    glue = folder / "glue.c"
    glue.write_text(_GLUE.replace("NAME", f"model_{network.stem}"), encoding="utf-8")
    shutil.copytree(built / "vectors", loaded / "vectors")
    for name in ("weights.bin", "manifest.json"):
        shutil.copy(built / name, loaded / name)
    runtime = [built / "runtime" / name for name in ("tunefarm_model.c", "tunefarm_runtime.c")]
    inputs = [glue, built / "model.c", *runtime, *sorted((built / "kernels").iterdir())]
    includes = ["-I", built, "-I", built / "runtime", "-I", ROOT / "deploy/edge/runner/src"]
    flags = ["-std=gnu11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread", "-s", *_SECTIONS]
    words = [*compiler, *flags, *includes, *inputs, "-lm", "-o", loaded / "model.so"]
    subprocess.run([str(each) for each in words], check=True, capture_output=True)
    return loaded
