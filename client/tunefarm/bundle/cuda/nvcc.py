"""NVIDIA's compiler of CUDA source, and what the code that it makes needs of a GPU."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final, TypeAlias

from tunefarm_schemas.bad_input import BadInput
from tunefarm_workers.builder.nvcc_release import NotNvcc, NvccRelease

COMMAND_S: Final = 900.0
_ARCHITECTURE: Final = re.compile(r"sm_(\d{1,2})(\d)([af]?)")
_SHARED: Final = re.compile(r"(\d+) bytes smem")
_ENTRY: Final = re.compile(r"Compiling entry function '(\w+)'")
_TOOLKIT: Final = re.compile(r"^#\$ TOP=(.+)$", re.MULTILINE)
_TAIL_BYTES: Final = 2000
_PACKAGE: Final = "nvidia-cuda-nvcc"
_FIX: Final = "Run: pip install 'tunefarm[cuda]', or name the compiler of a CUDA toolkit: --cc /usr/local/cuda/bin/nvcc"


@dataclass(frozen=True)
class GpuArchitecture:
    """What kernels are compiled for, such as ``sm_80``.

    Attributes:
        name: as nvcc names it.
        major, minor: the compute capability.
        is_exact: whether the code runs on no later one: ``sm_90a`` has instructions that those lack.
    """

    name: str
    major: int
    minor: int
    is_exact: bool

    @classmethod
    def named(cls, name: str) -> "GpuArchitecture":
        """The architecture of a target.

        Raises:
            BadInput: the target names none.
        """
        found = _ARCHITECTURE.fullmatch(name)
        if found is None:
            fix = 'Name one in the target: {"kind": "cuda", "arch": "sm_80"}.'
            raise BadInput("target", f"its arch is {name[:50]!r}, which names no GPU.", fix)
        return cls(name, int(found[1]), int(found[2]), bool(found[3]))


@dataclass(frozen=True)
class DeviceCode:
    """A fat binary, and the bytes of shared memory that each of its kernels declares."""

    image: bytes
    shared_bytes: dict[str, int]


@dataclass(frozen=True)
class Nvcc:
    """The compiler. ``driver_major`` and ``driver_minor`` are the CUDA version of the driver that its code needs."""

    path: str
    version: str
    driver_major: int
    driver_minor: int
    name: str = "nvcc"
    linker: str = ""

    @classmethod
    def found(cls, given: str = "") -> "Nvcc":
        """The compiler ``given``; else the first of: that on PATH, that below CUDA_HOME, that of NVIDIA's package.

        Raises:
            BadInput: there is none.
        """
        path = shutil.which(given) if given else next(_installed(), None)
        if path is None:
            raise BadInput("cc", f"{given or 'nvcc'!r} was not found, and it compiles the kernels.", _FIX)
        try:
            release = NvccRelease.of(path)
        except NotNvcc as error:
            raise BadInput("cc", str(error), _FIX) from error
        return cls(path, release.version, release.major, release.minor)

    @cached_property
    def toolkit(self) -> Path:
        """The folder of the toolkit. The compiler itself says it: ``path`` may be a script that runs that of a toolkit.

        Raises:
            BadInput: the compiler failed.
        """
        named = _TOOLKIT.search(_run((self.path, "--dryrun", "-fatbin", "-x", "cu", os.devnull), Path.cwd()))
        return (Path(named[1]) if named else Path(self.path).parent.parent).resolve()

    def compiled(self, source: str, architecture: GpuArchitecture, folder: Path) -> DeviceCode:
        """Code for ``architecture``, and intermediate code that drivers compile for later ones.

        Args:
            source: in CUDA.
            architecture: of the GPU.
            folder: an empty one, for temporary files.

        Raises:
            BadInput: the compiler failed.
        """
        (folder / "kernels.cu").write_text(source)
        name = architecture.name
        virtual = name.replace("sm_", "compute_")
        generated = (
            f"arch={virtual},code=[{name}]" if architecture.is_exact else f"arch={virtual},code=[{name},{virtual}]"
        )
        # The compiler writes the sizes of shared memory as notes of its assembler.
        said = _run(
            (self.path, "-fatbin", "-O3", "-gencode", generated, "-Xptxas=-v", "-o", "kernels.fatbin", "kernels.cu"),
            folder,
        )
        return DeviceCode((folder / "kernels.fatbin").read_bytes(), _shared_bytes(said))


CompileCuda: TypeAlias = Callable[[Nvcc, str, GpuArchitecture, Path], DeviceCode]
"""As ``Nvcc.compiled``."""


def _installed() -> Iterator[str]:
    """The compilers of this host, in the order of preference."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    for place in ("nvcc", f"{home}/bin/nvcc", *_in_package()):
        if found := shutil.which(place):
            yield found


def _in_package() -> Iterator[str]:
    """The compiler of the Python package that the extra ``cuda`` requires."""
    try:
        installed = distribution(_PACKAGE)
    except PackageNotFoundError:
        return
    for file in installed.files or ():
        if file.match("bin/nvcc"):
            yield str(installed.locate_file(file))


def _shared_bytes(said: str) -> dict[str, int]:
    found: dict[str, int] = {}
    kernel = ""
    for line in said.splitlines():
        if entry := _ENTRY.search(line):
            kernel = entry[1]
            found[kernel] = 0
        elif kernel and (shared := _SHARED.search(line)):
            found[kernel] = int(shared[1])
    return found


def _run(command: tuple[str, ...], folder: Path) -> str:
    """What a command wrote to both of its streams. Raises BadInput."""
    try:
        ended = subprocess.run(
            command, cwd=folder, check=False, capture_output=True, timeout=COMMAND_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput("cc", f"{command[0]} does not run: {error}", _FIX) from error
    wrote = (ended.stdout + ended.stderr).decode(errors="replace")
    if ended.returncode != 0:
        fix = "Use a CUDA toolkit that knows the target's arch, with a C++ compiler beside it."
        raise BadInput("cc", f"{command[0]} failed: {wrote[-_TAIL_BYTES:].strip() or ended.returncode}", fix)
    return wrote
