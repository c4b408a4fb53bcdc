"""Judges a ``.pt2`` file, a zip archive, before torch reads it."""

import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from tunefarm.frontend.model_source import FIELD
from tunefarm_schemas.bad_input import BadInput

MAX_MEMBERS: Final = 100_000
MAX_BYTES: Final = 64 << 30
MAX_CONFIG_BYTES: Final = 256 << 20
MAX_RATIO: Final = 100
"""torch stores members uncompressed; repacked archives of real weights shrink to a half at best."""
_SMALL_BYTES: Final = 1 << 20

_UNWRAP: Final = "program.run_decompositions() has tensors in place of quantized weights such as torchao's."
_SAVE: Final = 'Save it with torch.export.save(program, "model.pt2"), from tensors and operators of torch alone.'
_COMPILED: Final = "Give the program that was compiled, saved with torch.export.save."


def require_safe_archive(path: Path) -> None:
    """Refuse an archive that could exhaust memory, names files outside of it, or contains pickled objects or libraries.

    ``torch.export.load`` would unpickle such objects, and load such libraries.

    Raises:
        BadInput: for that reason, or because the file is not such an archive or is truncated.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _judge_sizes(path, members)
            _judge_names(path, [member.filename for member in members])
            for name, config in _configs(archive, members):
                _judge_config(path, name, config)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, ValueError, RuntimeError) as error:
        problem = f"{path.name} is not a .pt2 archive, or is truncated ({error})."
        raise BadInput(FIELD, problem, "Save it again, and copy all of it.") from error


def _judge_sizes(path: Path, members: Sequence[zipfile.ZipInfo]) -> None:
    size_bytes = path.stat().st_size
    whole_bytes = sum(member.file_size for member in members)
    if len(members) > MAX_MEMBERS or whole_bytes > MAX_BYTES:
        problem = f"{path.name} unpacks to {whole_bytes >> 20} MiB in {len(members)} members."
        raise BadInput(FIELD, problem, f"Give a model of at most {MAX_BYTES >> 30} GiB in {MAX_MEMBERS} members.")
    overlapping = sum(member.compress_size for member in members) > size_bytes
    dense = [
        member.filename
        for member in members
        if member.file_size > max(_SMALL_BYTES, MAX_RATIO * max(member.compress_size, 1))
    ]
    if overlapping or dense:
        problem = f"{path.name} is a zip bomb: its members unpack to {whole_bytes >> 20} MiB."
        raise BadInput(FIELD, problem, _SAVE)


def _judge_names(path: Path, names: Sequence[str]) -> None:
    for name in names:
        parts = PurePosixPath(name.replace("\\", "/"))
        if parts.is_absolute() or ".." in parts.parts:
            raise BadInput(FIELD, f"{path.name} has the member {name[:200]!r}, which is outside of it.", _SAVE)
        if "aotinductor" in parts.parts or parts.suffix == ".so":
            raise BadInput(FIELD, f"{path.name} contains compiled code ({name[:200]!r}).", _COMPILED)
    if len(set(names)) != len(names):
        raise BadInput(FIELD, f"{path.name} has two members of the same name.", _SAVE)


def _configs(archive: zipfile.ZipFile, members: Sequence[zipfile.ZipInfo]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The tables of weights and constants, which state how each is stored."""
    for member in members:
        if not member.filename.endswith("_config.json"):
            continue
        if member.file_size > MAX_CONFIG_BYTES:
            raise ValueError(f"{member.filename} has {member.file_size >> 20} MiB")
        config = json.loads(archive.read(member))
        table = config.get("config") if isinstance(config, dict) else None
        if not isinstance(table, dict):
            raise ValueError(f"{member.filename} has no table")
        yield member.filename, table


def _judge_config(path: Path, member: str, table: Mapping[str, Any]) -> None:
    for name, entry in table.items():
        if not isinstance(entry, dict):
            raise ValueError(f"{member} has an entry that is not a table")
        stored = str(entry.get("path_name", ""))
        if entry.get("use_pickle") or not stored.startswith(("weight_", "tensor_")):
            problem = f"{path.name} contains {name[:200]!r} ({member}) as a pickle. Pickles are never loaded."
            raise BadInput(FIELD, problem, f"{_SAVE} {_UNWRAP}")
