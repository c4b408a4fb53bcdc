"""What devices would refuse is refused when a bundle is published or unpacked."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from tests.release.repositories import Workshop, write_bundle
from tunefarm.bundle.bundle_archive import unpack
from tunefarm.bundle.bundle_folder import files_in
from tunefarm.bundle.fallbacks import require_reachable
from tunefarm.release.bundle_variant import read_bundle
from tunefarm.release.publishing import publish
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.bundle import BundleRequirements


@pytest.mark.parametrize("name", ["model.so.sig", "stable.runner"])
def test_texts_for_runners_are_no_files_of_a_bundle(tmp_path: Path, name: str) -> None:
    folder = write_bundle(tmp_path / "cnn-1", b"kernels")
    read_bundle(folder)
    (folder / name).write_bytes(b"x")
    with pytest.raises(BadInput, match="small runners"):
        read_bundle(folder)


def test_sparse_members_of_an_archive_are_refused(tmp_path: Path) -> None:
    """A few bytes of an archive would stand for gigabytes of zeros."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.GNU_FORMAT) as archive:
        member = tarfile.TarInfo("weights.bin")
        member.type = tarfile.GNUTYPE_SPARSE
        archive.addfile(member)
    with pytest.raises(BadInput, match="something else than a bundle's files"):
        unpack(content.getvalue(), tmp_path / "unpacked")


@pytest.mark.parametrize("change", ["changed", "more", "missing"])
def test_bundle_with_other_files_than_its_manifest_lists_is_refused(tmp_path: Path, change: str) -> None:
    folder = write_bundle(tmp_path / "cnn-1", b"kernels")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"] = [each.model_dump() for each in files_in(folder) if each.path != "manifest.json"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    read_bundle(folder)
    place = folder / {"changed": "weights.bin", "more": "notes.txt", "missing": "model.so"}[change]
    if change == "missing":
        place.unlink()
    else:
        place.write_bytes(b"other")
    with pytest.raises(BadInput, match=f"'{place.name}' is not as the manifest lists it"):
        read_bundle(folder)


def test_variants_that_differ_in_their_c_library_are_no_release(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path).begin("canary")
    first, second = (workshop.bundle(libc.split()[0], libc=libc) for libc in ("glibc 2.17", "musl"))
    with pytest.raises(BadInput, match="x86_64 need glibc and musl"):
        publish(workshop.signing(), [first, second], channel="canary", name="cnn-1")
    own_class = workshop.bundle("of-a-class", libc="musl", device_class_id="alpine")
    published = publish(workshop.signing(), [first, own_class], channel="canary", name="cnn-1")
    assert [each.device_class_id for each in published.current.variants] == ["alpine", None]


@pytest.mark.parametrize(("first", "second"), [("glibc 2.17", "musl"), ("musl", "glibc 2.34")])
def test_fallback_for_another_c_library_is_refused(first: str, second: str) -> None:
    variants = [BundleRequirements(architecture="x86_64", cpu_features=("avx2",), libc=first)]
    variants.append(BundleRequirements(architecture="x86_64", libc=second))
    with pytest.raises(BadInput, match="need glibc and musl"):
        require_reachable(variants)
    require_reachable([variants[0], variants[1].model_copy(update={"libc": ""})])
