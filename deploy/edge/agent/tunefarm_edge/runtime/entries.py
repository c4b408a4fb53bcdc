"""The entries of a release: functions that its library runs, each with its own inputs and outputs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tunefarm_edge.runtime.bundle_library import LoadFailed
from tunefarm_edge.runtime.elements import size_bytes


class UnknownEntry(LoadFailed):
    """A release has no entry of that name, or several and none was named."""


@dataclass(frozen=True)
class ModelTensor:
    """An input or an output. Its elements follow each other in C's order."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all elements."""
        return size_bytes(self.dtype, self.shape)

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> Self:
        """The tensor that a manifest describes."""
        return cls(str(described["name"]), str(described["dtype"]), tuple(int(each) for each in described["shape"]))


@dataclass(frozen=True)
class ReleaseEntry:
    """An entry as the manifest describes it.

    Attributes:
        name: of the function.
        position: in the library's table.
        inputs, outputs: in the order of a run.
        vectors: files of the tensors of each test vector, below ``inputs`` and ``outputs``.
    """

    name: str
    position: int
    inputs: tuple[ModelTensor, ...]
    outputs: tuple[ModelTensor, ...]
    vectors: tuple[Mapping[str, Any], ...]


def read_entries(folder: Path) -> tuple[Mapping[str, Any], tuple[ReleaseEntry, ...]]:
    """The manifest of the release in ``folder``, and all of its entries in the order of the library's table.

    Raises:
        LoadFailed: the manifest is missing, or is not that of a bundle.
    """
    try:
        manifest: Mapping[str, Any] = json.loads((folder / "manifest.json").read_bytes())
        entries = tuple(_entry(each, number) for number, each in enumerate((manifest, *manifest.get("others", ()))))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LoadFailed(f"{folder.name} cannot be loaded: {error!r}"[:500]) from error
    return manifest, entries


def _entry(described: Mapping[str, Any], position: int) -> ReleaseEntry:
    entry = described["entry"]
    return ReleaseEntry(
        name=str(entry["name"]),
        position=position,
        inputs=tuple(ModelTensor.of(each) for each in entry["inputs"]),
        outputs=tuple(ModelTensor.of(each) for each in entry["outputs"]),
        vectors=tuple(described.get("vectors", ())),
    )


def entry_named(entries: Sequence[ReleaseEntry], name: str | None) -> ReleaseEntry:
    """The entry called ``name``; None for the only one.

    Raises:
        UnknownEntry: there is none of that name, or there are several and none is named.
    """
    found = [each for each in entries if name is None or each.name == name]
    if len(found) == 1:
        return found[0]
    names = ", ".join(each.name for each in entries)
    problem = "the release has several entries" if name is None else f"the release has no entry {name!r}"
    raise UnknownEntry(f"{problem}; name one of: {names}")
