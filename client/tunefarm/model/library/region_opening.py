"""Opens the parts of a compiled model that libraries run."""

import hashlib
import importlib.metadata
import re
import threading
from pathlib import Path
from typing import Final

from tunefarm.model.library.library import LIBRARIES
from tunefarm.model.library.registration import register_region
from tunefarm.terminal.user_files import read_plain_file
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.model import ModelManifest, ModelRegion

REGISTERING: Final = threading.Lock()
"""Held from the registration of regions until TVM's VM has found them: models use the same names."""
_FIELD: Final = "library"


def require_region(folder: Path, region: ModelRegion) -> None:
    """Require that the file of a region is the one that the manifest describes.

    Raises:
        BadInput: it is missing, or another one.
    """
    fix = "Compile the model again; do not load it."
    try:
        content = read_plain_file(folder / region.file)
    except OSError as error:
        raise BadInput("folder", f"its {region.file} cannot be read ({error.strerror or error}).", fix) from error
    if hashlib.sha256(content).hexdigest() != region.digest:
        raise BadInput("folder", f"its {region.file} does not match the manifest.", fix)


def open_regions(manifest: ModelManifest, folder: Path) -> None:
    """Open the regions of a model, whose files were checked, and register the functions that run them.

    TVM's VM keeps the functions that it finds: hold ``REGISTERING`` until it is made.

    Raises:
        BadInput: a library is missing, older than the one of the manifest, or refuses a region.
    """
    for region in manifest.regions:
        require_library(region)
    for region in manifest.regions:
        library = LIBRARIES[region.library]
        kernel = library.open(folder / region.file, max(1, manifest.num_cores), spins=region.spins)
        register_region(region.name, kernel)


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
