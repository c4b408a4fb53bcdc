"""Opens the parts of a compiled model that libraries run."""

import hashlib
import importlib.metadata
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tunefarm.model.library.library import LIBRARIES
from tunefarm.model.library.registration import register_region, remove_region
from tunefarm.terminal.user_files import read_plain_file
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.kernel_library.program import MAX_PROGRAM_BYTES
from tunefarm_schemas.tuning.model import ModelManifest, ModelRegion

_REGISTERING: Final = threading.Lock()
_FIELD: Final = "library"


def require_region(folder: Path, region: ModelRegion) -> None:
    """Require that the file of a region is the one that the manifest describes.

    Raises:
        BadInput: it is missing, or another one.
    """
    fix = "Compile the model again; do not load it."
    try:
        content = read_plain_file(folder / region.file, limit_bytes=MAX_PROGRAM_BYTES)
    except OSError as error:
        raise BadInput("folder", f"its {region.file} cannot be read ({error.strerror or error}).", fix) from error
    if hashlib.sha256(content).hexdigest() != region.digest:
        raise BadInput("folder", f"its {region.file} does not match the manifest.", fix)


@contextmanager
def opened_regions(manifest: ModelManifest, folder: Path) -> Iterator[None]:
    """Open the regions of a model, whose files were checked; the functions that run them are registered meanwhile.

    TVM's VM, which is made in the context, keeps the functions that it finds. Models use the same names, so one thread
    at a time is in the context.

    Raises:
        BadInput: a library is missing, older than the one of the manifest, or refuses a region.
    """
    for region in manifest.regions:
        require_library(region)
    with _REGISTERING, ExitStack() as stack:
        for region in manifest.regions:
            library = LIBRARIES[region.library]
            kernel = library.open(folder / region.file, max(1, manifest.num_cores), spins=region.spins)
            register_region(region.name, kernel)
            stack.callback(remove_region, region.name)
        yield


def require_library(region: ModelRegion) -> None:
    """Require that the library of a region is installed, in its version or a newer one.

    Raises:
        BadInput: it is not.
    """
    library = LIBRARIES.get(region.library)
    if library is None:
        raise BadInput(_FIELD, f"the model uses the unknown library {region.library!r}.", "Install a newer tunefarm.")
    fix = f"Run: pip install '{region.requirement}', or compile the model with --no-libraries."
    try:
        installed = library.requirement()
    except importlib.metadata.PackageNotFoundError as error:
        raise BadInput(_FIELD, f"the model needs {region.library}, which is not installed.", fix) from error
    if _numbers(installed) < _numbers(region.requirement):
        raise BadInput(_FIELD, f"the model needs {region.requirement}, and {installed} is installed.", fix)


def _numbers(requirement: str) -> tuple[int, ...]:
    """The leading numbers of a version, of which the first three order releases."""
    return tuple(int(each) for each in re.findall(r"[0-9]+", requirement.rpartition("==")[2])[:3])
