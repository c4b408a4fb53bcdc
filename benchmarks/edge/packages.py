"""Sizes of packages for aarch64, as a package index has them."""

import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tunefarm_schemas.frozen import Frozen

ROOT: Final = Path(__file__).parents[2]
_PLATFORMS: Final = (
    "manylinux2014_aarch64",
    "manylinux_2_17_aarch64",
    "manylinux_2_27_aarch64",
    "manylinux_2_28_aarch64",
)


class Size(Frozen):
    """Bytes of something that a device installs.

    Attributes:
        packed_bytes: what is downloaded, None if it is not compressed.
        unpacked_bytes: all files.
        native_bytes: shared libraries and programs among them.
        largest_native_bytes: the largest of those.
    """

    name: str
    packed_bytes: int | None
    unpacked_bytes: int
    native_bytes: int
    largest_native_bytes: int


class NotInIndex(Exception):
    """The package index has no wheel for aarch64; the message is pip's last line."""


def wheels(packages: Sequence[str], *, with_dependencies: bool = False) -> Size:
    """Download wheels for aarch64 and Python 3.11 into a temporary folder, and add up what they contain.

    Raises:
        NotInIndex: there is none.
    """
    with tempfile.TemporaryDirectory(prefix="tunefarm-wheels-") as folder:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--dest", folder]
        command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", "3.11"]
        command += [word for platform in _PLATFORMS for word in ("--platform", platform)]
        command += ["--constraint", str(ROOT / "constraints.txt"), *packages]
        ended = subprocess.run(
            command if with_dependencies else [*command, "--no-deps"], check=False, capture_output=True, text=True
        )
        if ended.returncode != 0:
            raise NotInIndex(ended.stderr.strip().splitlines()[-1])
        found = sorted(Path(folder).iterdir())
        files = [item for each in found for item in _contained(each)]
        version = "" if with_dependencies else " " + found[0].name.split("-")[1]
        return _size(" ".join(packages) + version, sum(each.stat().st_size for each in found), files)


def sources(name: str, folders: Iterable[Path]) -> Size:
    """Python packages of this project, as wheels contain them."""
    paths = [path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix in (".py", ".typed")]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, path in enumerate(paths):
            archive.write(path, f"{number}/{path.name}")
    return _size(name, len(packed.getvalue()), [(path.name, path.stat().st_size) for path in paths])


def native(name: str, path: Path) -> Size:
    """A program or a library that is installed as it is."""
    return _size(name, None, [(f"{path.name}.so", path.stat().st_size)])


def added(name: str, first: Size, second: Size) -> Size:
    """Both together."""
    return Size(
        name=name,
        packed_bytes=(first.packed_bytes or 0) + (second.packed_bytes or 0),
        unpacked_bytes=first.unpacked_bytes + second.unpacked_bytes,
        native_bytes=first.native_bytes + second.native_bytes,
        largest_native_bytes=max(first.largest_native_bytes, second.largest_native_bytes),
    )


def _contained(wheel: Path) -> list[tuple[str, int]]:
    with zipfile.ZipFile(wheel) as archive:
        return [(each.filename, each.file_size) for each in archive.infolist()]


def _size(name: str, packed_bytes: int | None, files: Sequence[tuple[str, int]]) -> Size:
    libraries = [size for path, size in files if path.endswith(".so") or ".so." in path]
    return Size(
        name=name,
        packed_bytes=packed_bytes,
        unpacked_bytes=sum(size for _, size in files),
        native_bytes=sum(libraries),
        largest_native_bytes=max(libraries, default=0),
    )
