"""The files of a bundle beside its kernels, and the fields of its manifest that describe entries and records."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tunefarm.bundle.bundle_folder import RUNTIME
from tunefarm.bundle.messages import PlannedEntry, PlannedParts
from tunefarm.frontend.relax_model import ModelReference
from tunefarm.frontend.weights_file import Array, read_weights
from tunefarm.model.function_orders import ChosenRecord
from tunefarm.model.messages import FLOAT32_TOLERANCE, input_name, output_name
from tunefarm_schemas.tuning.bundle import BundleEntry, BundleRecord, BundleVector
from tunefarm_schemas.tuning.model import ModelEntry, ModelFunction


@dataclass(frozen=True)
class EntryVectors:
    """An entry with its test vectors, which stand in numbered folders below ``folder``."""

    planned: PlannedEntry
    references: tuple[ModelReference, ...]
    folder: str

    def described(self) -> BundleEntry:
        """The entry as the manifest has it."""
        return BundleEntry(
            constant=self.planned.constant,
            entry=self.planned.entry,
            arena_bytes=self.planned.arena_bytes,
            vectors=tuple(_vector(f"{self.folder}/{at}", each) for at, each in enumerate(self.references)),
        )

    def files(self) -> Iterator[tuple[str, bytes]]:
        """The files of the vectors, by their paths."""
        for vector, each in zip(self.described().vectors, self.references, strict=True):
            names = (*vector.inputs, *vector.outputs)
            for name, array in zip(names, (*each.inputs, *each.outputs), strict=True):
                yield name, array.tobytes()


def entry_vectors(parts: PlannedParts, given: Sequence[ModelReference], own: int) -> list[EntryVectors]:
    """What the framework computed for each entry, or else what is in the file ``own``.

    Those of the first entry are in ``vectors/N``, and those of others in ``vectors/NAME/N``; devices test all of them.
    """
    found: list[EntryVectors] = []
    for number, each in enumerate(parts.entries):
        references = tuple(one for one in given if one.entry == each.entry.name)
        if not references and each.vectors:
            references = (_reference(each.entry, number, read_weights(own)),)
        found.append(EntryVectors(each, references, f"vectors/{each.entry.name}" if number else "vectors"))
    return found


def runtime_files() -> dict[str, bytes]:
    """The runtime's files by their paths in a bundle."""
    files = {path.name: path.read_bytes() for path in sorted(RUNTIME.iterdir()) if path.is_file()}
    return {name if name == "CMakeLists.txt" else f"runtime/{name}": content for name, content in files.items()}


def plan_files(parts: PlannedParts, entries: Sequence[EntryVectors], *, is_cuda: bool = False) -> dict[str, bytes]:
    """The sources of the plan, and the header that tells the self-test and the library which entries there are."""
    on_gpu = "#define BUNDLE_CUDA 1\n" if is_cuda else ""
    models = ", ".join(f"&{each.planned.constant}" for each in entries)
    of_vectors = ", ".join(f"&{each.planned.constant}" for each in entries for _ in each.references)
    folders = ", ".join(f'"{each.folder}/{at}"' for each in entries for at in range(len(each.references)))
    bundle = f"""\
#ifndef BUNDLE_H_
#define BUNDLE_H_
#include "model.h"
#define BUNDLE_MODEL {entries[0].planned.constant}
#define BUNDLE_MODELS {models}
#define BUNDLE_VECTOR_MODELS {of_vectors or "NULL"}
#define BUNDLE_VECTOR_FOLDERS {folders or "NULL"}
#define BUNDLE_VECTORS {sum(len(each.references) for each in entries)}
#define BUNDLE_TOLERANCE {FLOAT32_TOLERANCE}
{on_gpu}#endif
"""
    return {"model.c": parts.source.encode(), "model.h": parts.header.encode(), "bundle.h": bundle.encode()}


def used_records(functions: Sequence[ModelFunction], records: Mapping[str, ChosenRecord]) -> tuple[BundleRecord, ...]:
    """The records whose schedule a function got, in order of their ids."""
    ids = {each.record_id for each in functions}
    found = {each.record_id: each.measured for each in records.values() if each.record_id in ids}
    return tuple(measured for _, measured in sorted(found.items()) if measured is not None)


def _reference(entry: ModelEntry, number: int, arrays: Mapping[str, Array]) -> ModelReference:
    inputs = tuple(arrays[input_name(number, at)] for at in range(len(entry.inputs)))
    outputs = tuple(arrays[output_name(number, at)] for at in range(len(entry.outputs)))
    return ModelReference(entry.name, inputs, outputs)


def _vector(folder: str, reference: ModelReference) -> BundleVector:
    return BundleVector(
        inputs=tuple(f"{folder}/input{at}.bin" for at in range(len(reference.inputs))),
        outputs=tuple(f"{folder}/output{at}.bin" for at in range(len(reference.outputs))),
    )
