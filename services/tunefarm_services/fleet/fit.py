"""Which variant of a release fits a device."""

from tunefarm_schemas.edge.device import EdgeFacts
from tunefarm_schemas.edge.release import Release, ReleaseVariant


def fitting_variant(release: Release, facts: EdgeFacts) -> ReleaseVariant | str:
    """The first variant that the device can run, without regard to space; the reason if there is none."""
    if variant := _first(release, facts):
        return variant
    of_architecture = [variant for variant in release.variants if variant.architecture == facts.architecture]
    if not of_architecture:
        return f"{release.name} has no variant for {facts.architecture}"
    of_abi = [variant for variant in of_architecture if variant.runtime_abi == facts.runtime_abi]
    if not of_abi:
        return f"{release.name} has no variant for runtime ABI {facts.runtime_abi}"
    missing = min((set(variant.cpu_features) - set(facts.cpu_features) for variant in of_abi), key=len)
    if missing:
        return f"{release.name} needs {', '.join(sorted(missing))}, which the device lacks"
    return f"{release.name} has no variant for device class {facts.device_class_id}"


def installable_variant(release: Release, facts: EdgeFacts, running: str | None) -> ReleaseVariant | str:
    """The variant that the device can install, or runs already; the reason if there is none."""
    found = fitting_variant(release, facts)
    if isinstance(found, str) or running == release.name or facts.free_bytes >= found.free_bytes:
        return found
    return f"{release.name} needs {found.free_bytes} bytes of space, and the device has {facts.free_bytes}"


def _first(release: Release, facts: EdgeFacts) -> ReleaseVariant | None:
    features = set(facts.cpu_features)
    for variant in release.variants:
        if (
            variant.architecture == facts.architecture
            and variant.runtime_abi == facts.runtime_abi
            and variant.device_class_id in (None, facts.device_class_id)
            and features.issuperset(variant.cpu_features)
        ):
            return variant
    return None
