"""Weights that pass through a file in the safetensors format."""

import json
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors import numpy as safetensors

from tunefarm.frontend.weights_file import DamagedWeights, WeightMemory, have_huge_pages, read_weights, write_weights


@pytest.fixture
def descriptor() -> Iterator[int]:
    memory = os.memfd_create("weights")
    yield memory
    os.close(memory)


def contents(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def flags_of_memory(address: int) -> list[str]:
    """Linux's flags of this process's memory that has an address."""
    is_within = False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        if bounds := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            is_within = int(bounds[1], 16) <= address < int(bounds[2], 16)
        elif is_within and line.startswith("VmFlags:"):
            return line.split()[1:]
    raise AssertionError(f"no memory has the address {address:#x}")


def put(descriptor: int, header: object, data: bytes = b"") -> None:
    text = json.dumps(header).encode()
    os.pwrite(descriptor, struct.pack("<Q", len(text)) + text + data, 0)


def test_read_weights_returns_what_was_written(descriptor: int) -> None:
    weights = {
        "dense": np.arange(12, dtype=np.float32).reshape(3, 4),
        "turned": np.arange(12, dtype=np.float16).reshape(3, 4).T,
        "brain": np.array([1.5, -2.0], dtype=ml_dtypes.bfloat16),
        "scalar": np.array(7, dtype=np.int64),
        "empty": np.zeros((0, 5), dtype=np.int8),
        "flags": np.array([True, False]),
    }

    write_weights(descriptor, weights)
    read = read_weights(descriptor)

    assert list(read) == list(weights)
    for name, array in weights.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)
        assert not read[name].flags.writeable


@pytest.mark.parametrize("memory", [WeightMemory.WRITABLE, WeightMemory.COPIED])
def test_own_weights_are_written_without_changing_the_file(descriptor: int, memory: WeightMemory) -> None:
    weights = {"first": np.arange(6, dtype=np.float32), "second": np.arange(1 << 20).reshape(1 << 10, -1)}
    write_weights(descriptor, weights)

    read = read_weights(descriptor, memory)

    for name, array in weights.items():
        np.testing.assert_array_equal(read[name], array)
        read[name][...] = 0
        np.testing.assert_array_equal(read_weights(descriptor)[name], array)


@pytest.mark.skipif(not have_huge_pages(), reason="the system has no huge pages")
def test_copied_weights_ask_for_huge_pages(descriptor: int) -> None:
    write_weights(descriptor, {"many": np.ones(1 << 21, np.float32)})

    many = read_weights(descriptor, WeightMemory.COPIED)["many"]

    assert "hg" in flags_of_memory(many.ctypes.data)


def test_copied_weights_of_a_file_that_shrinks_are_damaged(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    write_weights(descriptor, {"many": np.ones(1 << 10, np.float32)})
    whole_bytes = os.fstat(descriptor).st_size
    described = os.fstat(descriptor)
    os.ftruncate(descriptor, whole_bytes // 2)
    monkeypatch.setattr(os, "fstat", lambda _descriptor: described)

    with pytest.raises(DamagedWeights, match=f"ends after {whole_bytes // 2} of {whole_bytes} bytes"):
        read_weights(descriptor, WeightMemory.COPIED)


def test_write_weights_writes_what_the_safetensors_package_reads(descriptor: int) -> None:
    write_weights(descriptor, {"first": np.arange(6, dtype=np.float32).reshape(2, 3), "second": np.ones(3, np.int8)})

    loaded = safetensors.load(contents(descriptor))

    np.testing.assert_array_equal(loaded["first"], np.arange(6, dtype=np.float32).reshape(2, 3))
    np.testing.assert_array_equal(loaded["second"], np.ones(3, np.int8))


def test_write_weights_replaces_earlier_contents(descriptor: int) -> None:
    write_weights(descriptor, {"old": np.ones(1000)})
    write_weights(descriptor, {"new": np.ones(1)})

    assert list(read_weights(descriptor)) == ["new"]
    assert os.fstat(descriptor).st_size < 1000


def test_write_weights_rejects_element_types_without_a_name(descriptor: int) -> None:
    with pytest.raises(ValueError, match="complex64"):
        write_weights(descriptor, {"spectrum": np.ones(2, np.complex64)})


@pytest.mark.parametrize(
    ("header", "data"),
    [
        ([], b""),
        ({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b"1234"),
        ({"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, b"12345678"),
        ({"w": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, b"1234"),
        ({"w": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}}, b"1234"),
        ({"w": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}}, b"1234"),
        ({"w": 3}, b""),
    ],
)
def test_read_weights_rejects_damaged_headers(descriptor: int, header: object, data: bytes) -> None:
    put(descriptor, header, data)

    with pytest.raises(DamagedWeights):
        read_weights(descriptor)


def test_read_weights_rejects_a_header_beyond_the_file(descriptor: int) -> None:
    os.pwrite(descriptor, struct.pack("<Q", 1 << 40), 0)

    with pytest.raises(DamagedWeights, match="longer than the file"):
        read_weights(descriptor)
