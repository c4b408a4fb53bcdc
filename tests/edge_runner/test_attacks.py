"""What an attacker changes, swaps, repeats or signs with too few keys is refused before the library is loaded."""

import os
import shutil
from pathlib import Path

import pytest

from tests.edge_runner.toolchain import Compiler, Device, Publisher, text_of


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that the library leaves when it is loaded."""
    return tmp_path_factory.mktemp("loaded") / "loaded"


@pytest.fixture(scope="module")
def built(compiler: Compiler, loaded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiler.tiny_model(tmp_path_factory.mktemp("built") / "tiny", loaded=loaded)


@pytest.fixture
def bundle(built: Path, publisher: Publisher, loaded: Path, tmp_path: Path) -> Path:
    loaded.unlink(missing_ok=True)
    return publisher.publish(shutil.copytree(built, tmp_path / "bundle"), 7)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.mark.faults
def test_library_is_loaded_once_it_is_verified(device: Device, bundle: Path, root: Path, loaded: Path) -> None:
    assert device.refusal("install", root, bundle) == ""
    assert loaded.exists()


@pytest.mark.parametrize("step", [997, pytest.param(1, marks=pytest.mark.faults)])
@pytest.mark.parametrize("name", ["stable.runner", "stable.sig", "manifest.json", "model.so"])
def test_changed_byte_is_refused(device: Device, bundle: Path, root: Path, loaded: Path, name: str, step: int) -> None:
    path = bundle / name
    content = path.read_bytes()
    for position in range(0, len(content), step):
        changed = bytearray(content)
        changed[position] ^= 1
        path.write_bytes(changed)
        words = ("run", bundle) if position % 16 else ("install", root, bundle)
        assert device.refusal(*words) == "tampered", position
        assert not loaded.exists(), position
    path.write_bytes(content)
    assert device.refusal("run", bundle) == ""


def require_refused(device: Device, loaded: Path, code: str, *words: str | Path, **more: int) -> None:
    assert device.refusal(*words, **more) == code
    assert not loaded.exists()


def test_swapped_files_are_refused(device: Device, bundle: Path, root: Path, loaded: Path) -> None:
    one, other = bundle / "vectors/0/input0.bin", bundle / "vectors/0/output0.bin"
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    require_refused(device, loaded, "tampered", "install", root, bundle)


def test_text_and_files_of_two_releases_are_not_mixed(
    device: Device, publisher: Publisher, bundle: Path, root: Path, loaded: Path, tmp_path: Path
) -> None:
    newer = shutil.copytree(bundle, tmp_path / "newer")
    (newer / "weights.bin").write_bytes(b"1" * 16)
    publisher.publish(newer, 8)
    shutil.copy(newer / "stable.runner", bundle)
    require_refused(device, loaded, "tampered", "install", root, bundle)
    shutil.copy(newer / "stable.sig", bundle)
    require_refused(device, loaded, "tampered", "install", root, bundle)


def test_one_key_of_a_threshold_is_too_few(device: Device, bundle: Path, root: Path, loaded: Path) -> None:
    other = Publisher()
    two = ("--key", other.public, "--key-threshold", "2")
    require_refused(device, loaded, "tampered", "install", root, bundle, *two)
    twice = ("--key", device.public, "--key-threshold", "2")
    require_refused(device, loaded, "tampered", "install", root, bundle, *twice)
    signature = bundle / "stable.sig"
    signature.write_bytes(signature.read_bytes() * 2)
    require_refused(device, loaded, "tampered", "install", root, bundle, *two)
    signature.write_bytes(signature.read_bytes()[:64] + other.key.sign((bundle / "stable.runner").read_bytes()))
    assert device.refusal("install", root, bundle, *two) == ""
    assert device.refusal("run", root, *two) == ""


@pytest.mark.parametrize("count", [0, 63, 65, 16 * 64 + 64])
def test_signatures_of_a_wrong_size_are_refused(
    device: Device, bundle: Path, root: Path, loaded: Path, count: int
) -> None:
    signature = bundle / "stable.sig"
    signature.write_bytes((signature.read_bytes() * 20)[:count])
    require_refused(device, loaded, "tampered", "install", root, bundle)


def test_key_that_is_not_pinned_any_more_signs_nothing(device: Device, bundle: Path, root: Path, loaded: Path) -> None:
    require_refused(Device(device.program, Publisher().public), loaded, "tampered", "install", root, bundle)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "vectors/../../x", ".x", "a//b", "a/", "x.runner", "a\\b"])
def test_path_that_leaves_its_folder_is_refused(
    device: Device, publisher: Publisher, bundle: Path, root: Path, loaded: Path, path: str
) -> None:
    text = text_of(bundle, 7).replace(b"file weights.bin ", f"file {path} ".encode())
    publisher.sign(bundle, text)
    require_refused(device, loaded, "tampered", "install", root, bundle)
    assert not list((root / "releases").iterdir())


@pytest.mark.parametrize("name", ["model.so", "stable.runner", "stable.sig"])
def test_links_pipes_and_devices_are_refused(
    device: Device, bundle: Path, root: Path, loaded: Path, name: str, tmp_path: Path
) -> None:
    place, outside = bundle / name, tmp_path / "outside"
    place.rename(outside)
    place.symlink_to(outside)
    require_refused(device, loaded, "tampered", "install", root, bundle)
    place.unlink()
    place.symlink_to("/dev/zero")
    require_refused(device, loaded, "tampered", "install", root, bundle)
    place.unlink()
    os.mkfifo(place)
    require_refused(device, loaded, "tampered", "install", root, bundle)


def test_files_larger_than_signed_are_not_read(device: Device, bundle: Path, root: Path, loaded: Path) -> None:
    for name in ("model.so", "stable.runner", "stable.sig"):
        path = bundle / name
        content = path.read_bytes()
        with path.open("r+b") as file:
            file.truncate(1 << 40)  # takes no space
        require_refused(device, loaded, "tampered", "install", root, bundle)
        path.write_bytes(content)
    assert device.refusal("install", root, bundle) == ""
