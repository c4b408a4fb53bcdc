"""Writes the plan that won a race in place of our kernels alone."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tunefarm.artifact.artifact_folder import MANIFEST_NAME
from tunefarm.model.model_folder import LIBRARY_NAME, PROGRAM_NAME, WEIGHTS_NAME, kernels_of, require_model
from tunefarm.model.model_writing import write_program
from tunefarm.model.race.plan_folder import LibraryPlan, PlanFolders
from tunefarm.terminal.user_files import put_file
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.model import ModelManifest

_OWN: Final = "own-kernels"


@dataclass(frozen=True)
class BuiltObject:
    """An object file with the functions of one task, or with those of none."""

    path: str
    functions: tuple[str, ...]


@dataclass(frozen=True)
class Shipped:
    """What a model with libraries is linked from.

    Attributes:
        link: makes a library of object files.
        objects: of all functions.
        library: that is linked from all of them.
    """

    link: Callable[[Sequence[str]], bytes]
    objects: Sequence[BuiltObject]
    library: bytes

    def write(self, folders: PlanFolders, plan: LibraryPlan) -> tuple[ModelManifest, bytes]:
        """Write the model of a plan, with only the functions and the weights that it uses, and move the others away.

        Returns its manifest and its kernels.

        Raises:
            BadInput: it cannot be cut or linked.
        """
        planned, manifest, weights = folders.final(plan)
        of_tasks = {name for each in self.objects for name in each.functions}
        others = set(kernels_of(self.library)) - of_tasks
        used = [each for each in self.objects if _is_used(each, planned.parts.calls, others)]
        library = self.link([each.path for each in used])
        exported = set(kernels_of(library))
        functions = tuple(each for each in manifest.functions if each.name in exported)
        manifest = manifest.model_copy(update={"functions": functions, "library": digest(library)})
        require_model(library, planned.program, (*manifest.callees, *(region.name for region in manifest.regions)))
        own = folders.folder / _OWN
        own.mkdir()
        own.chmod(0o755)
        for name in (LIBRARY_NAME, PROGRAM_NAME, WEIGHTS_NAME, MANIFEST_NAME):
            (folders.folder / name).rename(own / name)
        weights.replace(folders.folder / WEIGHTS_NAME)
        put_file(folders.folder / LIBRARY_NAME, library)
        write_program(folders.folder, manifest, planned.program, planned.regions)
        return manifest, library


def own_kernels(folder: Path, manifest: ModelManifest) -> Path | None:
    """Where the model of our kernels alone is, if libraries run parts of the one in ``folder``."""
    return folder / _OWN if manifest.regions else None


def _is_used(built: BuiltObject, calls: Collection[str], others: Collection[str]) -> bool:
    """Whether a program calls a function of an object."""
    return any(name in calls for name in built.functions or others)
