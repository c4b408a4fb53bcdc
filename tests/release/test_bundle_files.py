"""What devices would refuse is refused when a bundle is published or unpacked."""

import io
import tarfile
from pathlib import Path

import pytest

from tests.release.repositories import write_bundle
from tunefarm.bundle.bundle_archive import unpack
from tunefarm.release.bundle_variant import read_bundle
from tunefarm_schemas.bad_input import BadInput


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
