"""The parser accepts what the format permits and nothing else, and reads no byte beyond a text."""

import random
import re
import struct
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.edge_runner.toolchain import HERE, RUNNER, Compiler, text_of

PARSER: Final = ("release_text.cpp", "cpu.cpp")
"""The files of the runner that read a text."""
NUMBER: Final = rb"(?:0|[1-9][0-9]{0,15})"
NAME: Final = rb"[a-z0-9][a-z0-9._-]{0,99}"
PATH: Final = rb"[A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*"
FEATURES: Final = rb"(?:-|[a-z0-9_.-]{1,50}(?:,[a-z0-9_.-]{1,50})*)"
HEAD: Final = re.compile(
    rb"tunefarm-release 1\nchannel " + NAME + rb"\nsequence (" + NUMBER + rb")\nissued (" + NUMBER + rb")\nexpires ("
    + NUMBER + rb")\n(?:revoked-below (" + NUMBER + rb")\n)?"
)  # fmt: skip
VARIANT: Final = re.compile(
    rb"variant (?:aarch64|armv7|riscv64|x86_64|wasm32|cuda) " + FEATURES + rb" (" + NUMBER + rb") (" + NAME + rb")\n"
)
FILE: Final = re.compile(rb"file (" + PATH + rb") (" + NUMBER + rb") [0-9a-f]{64}\n")


def is_well_formed(text: bytes) -> bool:
    """The format once more, as regular expressions."""
    head = HEAD.match(text)
    if head is None:
        return False
    sequence, issued, expires, revoked = (int(each or 0) for each in head.groups())
    at, names, numbers = head.end(), set(), [sequence, issued, expires, revoked]
    if sequence < 1 or issued >= expires or revoked > sequence + 1:
        return False
    while at < len(text):
        variant = VARIANT.match(text, at)
        if variant is None:
            return False
        names.add(variant[2])
        numbers.append(int(variant[1]))
        at, paths = variant.end(), []
        while found := FILE.match(text, at):
            paths.append(found[1])
            numbers.append(int(found[2]))
            at = found.end()
        is_named = all(len(each) <= 200 and not each.endswith((b".runner", b".sig")) for each in paths)
        if not is_named or len(set(paths)) < len(paths) or paths[:1] != [b"manifest.json"]:
            return False
    return len(names) <= 1 and max(numbers) <= 2**53


def mutated(text: bytes, random_: random.Random) -> bytes:
    lines = text.splitlines(keepends=True)
    for _ in range(random_.choice((1, 1, 1, 2, 5))):
        at = random_.randrange(len(lines))
        line = bytearray(lines[at])
        spot = random_.randrange(len(line)) if line else 0
        match random_.randrange(6):
            case 0:
                line[spot : spot + 1] = bytes([random_.randrange(256)])
            case 1:
                line[spot:spot] = random_.choice((b" ", b"\n", b"0", b"9" * 20, b"-", b"/", b"..", b"\0", b"a" * 210))
            case 2:
                del line[spot : spot + random_.choice((1, 1, 5))]
            case 3:
                lines[at:at] = [random_.choice(lines)]
                continue
            case 4:
                lines[at] = random_.choice(lines)
                continue
            case _:
                line = line[:spot]
        lines[at] = bytes(line)
    return b"".join(lines)


@pytest.mark.parametrize("mutations", [1_000, pytest.param(200_000, marks=pytest.mark.faults)])
def test_only_well_formed_texts_are_accepted(
    compiler: Compiler, objects: list[Path], tmp_path: Path, mutations: int
) -> None:
    sanitized = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    parser = [RUNNER / "src" / name for name in PARSER]
    checked = compiler.objects_of(parser, tmp_path, *sanitized, with_sodium=False)
    kept = [each for each in objects if each.name not in {other.name for other in checked}]
    program = compiler.program(HERE / "read_texts.cpp", [*kept, *checked], tmp_path / "read", *sanitized, "-lstdc++")
    text = text_of(compiler.tiny_model(tmp_path / "bundle"), 7, more="revoked-below 3\n")
    text += text[text.index(b"variant") :].replace(b"x86_64 -", b"aarch64 asimd,asimddp")
    random_ = random.Random(7)
    texts = [text, b"", b"\n", *(mutated(text, random_) for _ in range(mutations))]
    given = b"".join(struct.pack("<I", len(each)) + each for each in texts)
    ended = subprocess.run([program], input=given, capture_output=True, check=False, timeout=600)
    assert ended.returncode == 0, ended.stderr.decode(errors="replace")[:2000]
    expected = [is_well_formed(each) for each in texts]
    wrong = [each for each, one, other in zip(texts, ended.stdout, expected, strict=True) if (one == 49) != other]
    assert not wrong, wrong[:2]
    assert expected[0]
    assert 10 < sum(expected) < mutations / 2
