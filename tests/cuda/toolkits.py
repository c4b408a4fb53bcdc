"""Compilers of CUDA source: one that only states its version, and that of NVIDIA's Python packages."""

from importlib.metadata import distribution
from pathlib import Path

import pytest

PACKAGE = "nvidia-cuda-nvcc"


def silent_nvcc(path: Path, version: str) -> Path:
    """A program at ``path`` that states ``version`` as nvcc does, and compiles nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    release = ".".join(version.split(".")[:2])
    path.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {release}, V{version}'\n")
    path.chmod(0o755)
    return path


def hide_nvcc(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let neither PATH, nor CUDA_HOME, nor NVIDIA's package have a compiler; an empty one is put into ``folder``."""
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("CUDA_HOME", "/nonexistent")
    package_with(folder)
    monkeypatch.syspath_prepend(folder)


def package_with(folder: Path, *files: Path) -> None:
    """Metadata of NVIDIA's package in ``folder``, which has ``files`` from there."""
    metadata = folder / "nvidia_cuda_nvcc-9.8.7.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 9.8.7\n")
    (metadata / "RECORD").write_text("".join(f"{each.relative_to(folder)},,\n" for each in files))


def installed_toolkit() -> Path:
    """The folder of NVIDIA's packages with its compiler, which ``make test-targets`` installs."""
    [compiler] = [each for each in distribution(PACKAGE).files or () if each.match("bin/nvcc")]
    return Path(str(compiler.locate())).parents[1]
