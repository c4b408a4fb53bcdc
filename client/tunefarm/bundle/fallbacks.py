"""Bundles of one source for several targets, each of which says which ones stand in for it."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tunefarm.artifact.artifact_folder import MANIFEST_NAME
from tunefarm.bundle.bundle_build import BuiltBundle
from tunefarm.bundle.bundle_folder import manifest_text, new_bundle
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.edge.release import Architecture
from tunefarm_schemas.farm.processor import architecture_named
from tunefarm_schemas.tuning.bundle import BundleForm, BundleManifest, BundleRequirements

GENERIC: Final = "generic"
"""The target for any processor of the architecture of the first one."""
_KEPT: Final = ("kind", "mtriple", "num-cores", "mabi", "mfloat-abi")
_HAVE_A_BASE: Final = frozenset({"x86_64", "aarch64"})
"""Architectures whose base includes floating point."""


@dataclass(frozen=True)
class VariantFolders:
    """Builds the bundle of each target in a folder of its own, ``0``, ``1`` and so on.

    Attributes:
        build: builds for a target, as typed, in a new folder.
        form: of all of them.
    """

    build: Callable[[str, Path], BuiltBundle]
    form: BundleForm

    def write(self, targets: Sequence[str], folder: Path) -> list[BuiltBundle]:
        """Build for ``targets``, the best first, in the new or empty ``folder``. An error leaves none of them behind.

        Raises:
            BadInput: one cannot be built; or devices that can run one can run one before it, too.
        """
        if self.form not in {"library", "static"}:
            fix = "Add --form library, or leave out --fallback."
            raise BadInput("fallback", f"the form {self.form} is compiled on the device or later.", fix)
        with new_bundle(folder) as staging:
            built: list[BuiltBundle] = []
            for number, target in enumerate(targets):
                wanted = _generic(built[0].manifest) if target == GENERIC and built else target
                built.append(self.build(wanted, staging / str(number)))
                require_reachable([_requires(each.manifest) for each in built])
            manifests = [_with_fallbacks(built, number) for number in range(len(built))]
            for number, manifest in enumerate(manifests):
                (staging / str(number) / MANIFEST_NAME).write_text(manifest_text(manifest))
        return [
            replace(each, folder=folder / str(number), manifest=manifest)
            for number, (each, manifest) in enumerate(zip(built, manifests, strict=True))
        ]


def _with_fallbacks(built: Sequence[BuiltBundle], number: int) -> BundleManifest:
    after = tuple(_requires(each.manifest) for each in built[number + 1 :])
    return built[number].manifest.model_copy(update={"fallbacks": after})


def _requires(manifest: BundleManifest) -> BundleRequirements:
    assert manifest.requires is not None, "a compiled form has requirements"
    return manifest.requires


def require_reachable(variants: Sequence[BundleRequirements]) -> None:
    """Require that devices get the last variant, and none for another C library than theirs. Raises BadInput."""
    last = variants[-1]
    for number, each in enumerate(variants[:-1]):
        is_wider = set(each.cpu_features) <= set(last.cpu_features) and each.device_class_id is None
        if each.architecture != last.architecture:
            continue
        if each.device_class_id == last.device_class_id and len(_libcs(each, last)) > 1:
            problem = f"variants {number} and {len(variants) - 1} need {' and '.join(_libcs(each, last))}."
            fix = "Devices do not choose by that: build and publish each by itself, in a channel of its own."
            raise BadInput("fallback", problem, fix)
        if is_wider:
            problem = f"each device that can run variant {len(variants) - 1} can run variant {number}."
            raise BadInput("fallback", problem, "Name the target with the most instructions first.")


def _libcs(*variants: BundleRequirements) -> list[str]:
    """The C libraries that they were linked for."""
    return sorted({each.libc.partition(" ")[0] for each in variants} - {""})


def _generic(first: BundleManifest) -> str:
    attributes = json.loads(first.target)
    architecture: Architecture | str = architecture_named(str(attributes["mtriple"]).partition("-")[0])
    if architecture not in _HAVE_A_BASE:
        fix = "Write the target as JSON, with the instructions that all devices have."
        raise BadInput("fallback", f"there is no generic target for {architecture}.", fix)
    return json.dumps({name: attributes[name] for name in _KEPT if name in attributes})
