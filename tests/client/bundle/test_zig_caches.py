"""What Zig builds for a machine is built once, kept privately, and never used when it is damaged."""

import os
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tunefarm.bundle.confined.zig_caches import MAX_ARCHIVES, ZigCaches
from tunefarm.bundle.link.toolchain import BundleToolchain

COMPILER = ("/usr/bin/python", "-m", "ziglang", "cc", "-target", "wasm32-wasi")
ZIG = BundleToolchain("wasm32", COMPILER, (), "zig", "0.17.1", is_zig=True)


class Builds:
    """Counts what it builds."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> bytes:
        self.count += 1
        return f"archive {self.count}".encode()


@pytest.fixture
def caches(tmp_path: Path) -> ZigCaches:
    return ZigCaches(tmp_path)


def archives(caches: ZigCaches) -> list[Path]:
    return sorted(caches.folder.glob("*.zip"))


def test_archive_is_built_once(caches: ZigCaches) -> None:
    build = Builds()
    assert [caches.archive(ZIG, "wasm", build) for _ in range(3)] == [b"archive 1"] * 3
    elsewhere = replace(ZIG, compiler=("/opt/python", *COMPILER[1:]))
    assert ZigCaches(caches.folder).archive(elsewhere, "wasm", build) == b"archive 1"
    assert stat.S_IMODE(archives(caches)[0].stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "other",
    [replace(ZIG, version="0.17.2"), replace(ZIG, compiler=(*COMPILER[:-1], "x86_64-linux-musl"))],
    ids=["version", "machine"],
)
def test_archive_is_of_one_version_and_machine(caches: ZigCaches, other: BundleToolchain) -> None:
    build = Builds()
    assert caches.archive(ZIG, "library", build) == b"archive 1"
    assert caches.archive(other, "library", build) == b"archive 2"
    assert caches.archive(ZIG, "wasm", build) == b"archive 3"
    assert caches.archive(ZIG, "library", build) == b"archive 1"


def test_damaged_archive_is_built_again(caches: ZigCaches) -> None:
    build = Builds()
    caches.archive(ZIG, "wasm", build)
    archives(caches)[0].write_bytes(b"archi")
    left = caches.folder / ".left-by-a-killed-process.new"
    left.write_bytes(b"half")
    assert caches.archive(ZIG, "wasm", build) == b"archive 2"
    assert caches.archive(ZIG, "wasm", build) == b"archive 2"
    assert len(archives(caches)) == 1
    assert not left.exists()


def test_failed_build_keeps_nothing(caches: ZigCaches) -> None:
    def fails() -> bytes:
        raise ValueError("no compiler")

    with pytest.raises(ValueError, match="no compiler"):
        caches.archive(ZIG, "wasm", fails)
    assert archives(caches) == []
    assert caches.archive(ZIG, "wasm", Builds()) == b"archive 1"


def test_oldest_archives_are_removed(caches: ZigCaches) -> None:
    build, notes = Builds(), caches.folder / "notes.zip"
    notes.write_bytes(b"mine")
    for number in range(MAX_ARCHIVES + 3):
        before = set(archives(caches))
        caches.archive(replace(ZIG, version=str(number)), "wasm", build)
        for new in set(archives(caches)) - before:
            os.utime(new, (number, number))
    assert len(archives(caches)) == MAX_ARCHIVES + 1
    assert caches.archive(replace(ZIG, version=str(MAX_ARCHIVES)), "wasm", build) == b"archive 17"
    assert build.count == MAX_ARCHIVES + 3
    assert notes.read_bytes() == b"mine"


def test_others_wait_for_the_process_that_builds(caches: ZigCaches) -> None:
    started, build = threading.Event(), Builds()

    def slow() -> bytes:
        started.set()
        time.sleep(0.2)
        return build()

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(caches.archive, ZIG, "wasm", slow)
        started.wait()
        second = threads.submit(ZigCaches(caches.folder).archive, ZIG, "wasm", slow)
        assert (first.result(), second.result()) == (b"archive 1", b"archive 1")
