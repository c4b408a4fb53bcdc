"""A bundle as a variant of a release: its files, its requirements, and patches from an older bundle."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import zstandard
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tunefarm.release.release_folder import digest_of_file
from tunefarm.terminal.user_files import read_plain_file
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.edge.release import RUNTIME_ABI, Architecture, FileDelta, ReleaseFile, ReleaseVariant
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.bundle import BundleFile

MANIFEST: Final = "manifest.json"
_WORTH: Final = 0.8
"""A patch above this part of the file is left out: it saves too little for what applying it takes."""
_LARGEST_PATCHED_BYTES: Final = 256 << 20
_LEVEL: Final = 19


class _Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class BundleNeeds(_Lenient):
    """What a bundle needs of a device, in its manifest."""

    architecture: Architecture
    cpu_features: tuple[str, ...] = ()
    device_class_id: str | None = None
    runtime_abi: int = RUNTIME_ABI
    libc: str = ""


class ManifestLatency(_Lenient):
    """The latency of a bundle, in its manifest."""

    p50_s: float | None = None
    p95_s: float | None = None


class BundleSummary(_Lenient):
    """The fields of a bundle's manifest that a release repeats."""

    name: str
    requires: BundleNeeds
    latency: ManifestLatency | None = None
    weights_bytes: int = Field(ge=0)
    arena_bytes: int = Field(ge=0)
    files: tuple[BundleFile, ...] = ()


@dataclass(frozen=True)
class BundleFiles:
    """A bundle that was read.

    Attributes:
        model: its name.
        variant: for the release.
        libc: the C library that it was linked for, without its version; empty for any.
        sources: the file of each digest.
        patches: the content of each patch, by its digest.
    """

    model: str
    variant: ReleaseVariant
    libc: str
    sources: dict[str, Path]
    patches: dict[str, bytes]


_OF_RUNNERS: Final = frozenset({".runner", ".sig"})
"""Endings of the signed text of a channel and of its signatures."""


def read_bundle(folder: Path, old: Path | None = None) -> BundleFiles:
    """Read a bundle, with patches from the bundle ``old`` where they are smaller. Raises BadInput."""
    summary = _summary(folder)
    files = _files(folder)
    _require_listed(summary, files)
    manifest = next(file for file in files if file.path == MANIFEST)
    others = tuple(file for file in files if file.path != MANIFEST)
    deltas, patches = _patches(old, folder, files) if old is not None else ((), {})
    needs, latency = summary.requires, summary.latency or ManifestLatency()
    variant = ReleaseVariant(
        architecture=needs.architecture,
        cpu_features=needs.cpu_features,
        device_class_id=needs.device_class_id,
        runtime_abi=needs.runtime_abi,
        free_bytes=sum(file.size_bytes for file in files),
        memory_bytes=summary.weights_bytes + summary.arena_bytes,
        latency_p50_s=latency.p50_s,
        latency_p95_s=latency.p95_s,
        manifest=manifest,
        files=others,
        deltas=deltas,
    )
    sources = {file.digest: folder / file.path for file in files}
    return BundleFiles(summary.name, variant, needs.libc.partition(" ")[0], sources, patches)


def best_first(variants: Sequence[ReleaseVariant]) -> tuple[ReleaseVariant, ...]:
    """Variants of one device class first, then those that use more of the processor's features."""
    return tuple(sorted(variants, key=lambda each: (each.device_class_id is None, -len(each.cpu_features))))


def _summary(folder: Path) -> BundleSummary:
    try:
        content = read_plain_file(folder / MANIFEST)
    except OSError as error:
        problem = f"{folder} has no readable {MANIFEST} ({error.strerror})."
        raise BadInput("BUNDLE", problem, "Give the folder of a bundle.") from error
    try:
        return BundleSummary.model_validate(json.loads(content))
    except (ValidationError, ValueError) as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) if isinstance(error, ValidationError) else "JSON"
        fix = "Build it for a device: tunefarm bundle build MODEL --form library"
        raise BadInput(
            "BUNDLE", f"{folder / MANIFEST} cannot be released: {where} is missing or wrong.", fix
        ) from error


def _files(folder: Path) -> list[ReleaseFile]:
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise BadInput("BUNDLE", f"{path} is neither a file nor a folder.", "Remove it, or put the file there.")
        if path.is_file():
            found.append(_release_file(folder, path))
    return found


def _release_file(folder: Path, path: Path) -> ReleaseFile:
    relative = path.relative_to(folder).as_posix()
    if path.suffix in _OF_RUNNERS:
        problem = f"{relative[:200]!r} ends as the texts for small runners do, which then refuse the release."
        raise BadInput("BUNDLE", problem, "Remove or rename the file.")
    try:
        return ReleaseFile(path=relative, size_bytes=path.stat().st_size, digest=digest_of_file(path))
    except ValidationError as error:
        raise BadInput("BUNDLE", f"{relative[:200]!r} is not a portable path.", "Rename the file.") from error


def _require_listed(summary: BundleSummary, files: Sequence[ReleaseFile]) -> None:
    """Require what the manifest lists, if it lists files: vectors that were changed with what they test would pass."""
    listed = {(each.path, each.digest) for each in summary.files}
    found = {(each.path, each.digest) for each in files if each.path != MANIFEST}
    if listed and listed != found:
        path = min(path for path, _ in listed ^ found)
        problem = f"{path[:200]!r} is not as the manifest lists it."
        raise BadInput("BUNDLE", problem, "Build the bundle again; do not ship it.")


def _patches(old: Path, new: Path, files: Sequence[ReleaseFile]) -> tuple[tuple[FileDelta, ...], dict[str, bytes]]:
    deltas, patches = [], {}
    for file in files:
        before = old / file.path
        if not before.is_file() or max(before.stat().st_size, file.size_bytes) > _LARGEST_PATCHED_BYTES:
            continue
        content = before.read_bytes()
        if digest(content) == file.digest or not content:
            continue
        patch = make_delta(content, (new / file.path).read_bytes())
        if len(patch) > _WORTH * file.size_bytes:
            continue
        patches[digest(patch)] = patch
        deltas.append(
            FileDelta(
                from_digest=digest(content),
                to_digest=file.digest,
                patch_digest=digest(patch),
                patch_bytes=len(patch),
            )
        )
    return tuple(deltas), patches


def make_delta(old: bytes, new: bytes) -> bytes:
    """The patch that makes ``new`` of ``old``: a Zstandard frame with ``old`` as its raw dictionary."""
    dictionary = zstandard.ZstdCompressionDict(old, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    return zstandard.ZstdCompressor(level=_LEVEL, dict_data=dictionary).compress(new)
