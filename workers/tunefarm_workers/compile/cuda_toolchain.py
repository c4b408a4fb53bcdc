"""The CUDA compiler, as a toolchain of build children."""

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from tunefarm_schemas.bad_input import BadInput
from tunefarm_workers.builder.nvcc_release import NotNvcc, NvccRelease
from tunefarm_workers.session.device.session_messages import Toolchain

CudaCompiler = Literal["nvrtc", "nvcc"]


def cuda_toolchain(compiler: CudaCompiler, toolkit: str, base: Toolchain | None = None) -> Toolchain:
    """``base`` with a CUDA compiler. ``toolkit`` is the folder of the CUDA toolkit.

    Raises:
        BadInput: the compiler is not installed, or its version is unknown.
    """
    path = f"{toolkit}/bin:/usr/local/bin:/usr/bin:/bin"
    environment = {"TVM_CUDA_COMPILE_MODE": compiler, "CUDA_HOME": toolkit, "PATH": path}
    environment["CUDA_PATH"] = toolkit  # read by TVM
    update = {
        "environment": tuple(sorted(environment.items())),
        "programs": (toolkit,) if compiler == "nvcc" else (),
        "readable": (toolkit,),
        "compiler": _compiler_version(compiler, toolkit),
    }
    return (base or Toolchain()).model_copy(update=update)


def _compiler_version(compiler: CudaCompiler, toolkit: str) -> str:
    """The CUDA compiler with its version, as in a record's key."""
    if compiler == "nvcc":
        return f"nvcc-{_nvcc_version(Path(toolkit))}"
    try:
        return f"nvrtc-{version('cuda-bindings')}"
    except PackageNotFoundError as error:
        fix = "Install cuda-bindings, or set TUNEFARM_CUDA_COMPILER=nvcc."
        raise BadInput("compiler", "nvrtc needs the Python package cuda-bindings.", fix) from error


def _nvcc_version(toolkit: Path) -> str:
    """The version that the toolkit states. NVIDIA's Python packages state none, so their compiler is asked."""
    stated = toolkit / "version.json"
    try:
        return str(json.loads(stated.read_text())["cuda_nvcc"]["version"])
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput("toolkit", f"{stated} has no version: {error}.", "Name the toolkit.") from error
    try:
        return NvccRelease.of(str(toolkit / "bin/nvcc")).version
    except NotNvcc as error:
        fix = "Name the folder of a CUDA toolkit, or that of NVIDIA's Python packages: site-packages/nvidia/cu13"
        raise BadInput("toolkit", f"it has no version.json, and {error}", fix) from error
