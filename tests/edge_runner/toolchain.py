"""Builds the runner, models for it and releases of them."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ROOT: Final = Path(__file__).parents[2]
HERE: Final = Path(__file__).parent
RUNNER: Final = ROOT / "deploy/edge/runner"
RUNTIME: Final = ROOT / "deploy/edge/runtime"
SODIUM: Final = ROOT / ".venv/libsodium/src/libsodium"
SODIUM_SOURCES: Final = (
    "crypto_sign/ed25519/ref10/open.c",
    "crypto_sign/ed25519/ref10/sign.c",
    "crypto_core/ed25519/ref10/ed25519_ref10.c",
    "crypto_hash/sha256/cp/hash_sha256_cp.c",
    "crypto_hash/sha512/cp/hash_sha512_cp.c",
    "crypto_verify/verify.c",
    "sodium/utils.c",
)
STRICT: Final = ("-Wall", "-Wextra", "-Werror", "-Os", "-ffunction-sections", "-fdata-sections")
NOW: Final = 1_790_000_000
ISSUED: Final = NOW - 1000
EXPIRES: Final = NOW + 100_000
LIBRARIES: Final[dict[tuple[str, ...], bytes]] = {}
"""Those of tiny models that were built, by compiler and flags."""


@dataclass(frozen=True)
class Compiler:
    """A C and C++ compiler of one architecture. ``command`` takes sources of both, and links without a C++ library."""

    command: tuple[str, ...] = ("cc",)
    architecture: str = "x86_64"

    def objects(self, folder: Path, *flags: str) -> list[Path]:
        """The runner's library and libsodium's part, as object files in ``folder``."""
        folder.mkdir()
        ours = [each for each in sorted(RUNNER.glob("src/*.cpp")) if each.name != "main.cpp"]
        return self.objects_of(ours, folder, *flags)

    def objects_of(self, ours: Iterable[Path], folder: Path, *flags: str, with_sodium: bool = True) -> list[Path]:
        """Some files of the runner, by default with libsodium's part, as object files in ``folder``."""
        include = ["-I", f"{SODIUM}/include/sodium", "-I", f"{SODIUM}/include"]
        parts = [str(SODIUM / each) for each in SODIUM_SOURCES if with_sodium]
        own = ("-Os", "-ffunction-sections", "-fdata-sections", "-DSODIUM_STATIC", "-DCONFIGURED=1")
        commands = [(*flags, *self.cpp(), "-c", str(each)) for each in ours]
        commands += [(*flags, *own, *include, "-c", each) for each in parts]
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as compilers:
            list(compilers.map(lambda words: self._run(*words, folder=folder), commands))
        return sorted(folder.glob("*.o"))

    def cpp(self) -> tuple[str, ...]:
        includes = ("-I", f"{RUNNER}/include", "-I", f"{RUNNER}/src", "-I", str(RUNTIME), "-I", f"{SODIUM}/include")
        return ("-std=c++17", "-fno-exceptions", "-fno-rtti", *STRICT, "-DSODIUM_STATIC", *includes)

    def program(self, source: Path, objects: list[Path], output: Path, *flags: str) -> Path:
        own = self.cpp() if source.suffix == ".cpp" else (*STRICT, "-I", f"{RUNNER}/include")
        linked = [str(each) for each in objects]
        self._run(*own, *flags, str(source), *linked, "-Wl,--gc-sections", "-s", "-ldl", "-lm", "-o", str(output))
        return output

    def tiny_model(
        self,
        folder: Path,
        bias: int = 0,
        crashes: bool = False,
        abi: int = 1,
        loaded: Path | None = None,
        several: bool = False,
        is_half: bool = False,
        hangs: Path | None = None,
    ) -> Path:
        """A bundle's folder with the tiny model. Any bias but 0 makes its results wrong.

        Its library makes the file ``loaded`` when it is loaded. With ``several``, it has the entry ``negate`` as well.
        With ``is_half``, the model takes and returns float16, and adds the bias to the bits of each element. Its runs
        open the pipe ``hangs``, and do not end.
        """
        (folder / "vectors/0").mkdir(parents=True)
        (folder / "bundle_of_tests.h").write_text(f'#include "{RUNNER}/src/abi.h"\n')
        flags = [f"-DBIAS={bias}", f"-DABI={abi}", *(["-DCRASHES"] if crashes else [])]
        flags += [*(["-DSEVERAL"] if several else []), *(["-DHALF"] if is_half else [])]
        flags += [] if hangs is None else [f'-DHANGS="{hangs}"']
        flags += [] if loaded is None else [f'-DLOADED="{loaded}"', "-s", "-Wl,-z,noseparate-code"]
        runtime = [str(each) for each in (RUNTIME / "tunefarm_model.c", RUNTIME / "tunefarm_runtime.c")]
        sources = [str(HERE / "tiny_model.c"), *runtime]
        includes = ["-I", str(folder), "-I", str(RUNTIME)]
        library = ("-std=gnu11", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread", "-o", f"{folder}/model.so")
        built = (*self.command, *flags)
        if built not in LIBRARIES:
            self._run(*STRICT, *flags, *includes, *sources, *library)
            LIBRARIES[built] = (folder / "model.so").read_bytes()
        (folder / "model.so").write_bytes(LIBRARIES[built])
        (folder / "bundle_of_tests.h").unlink()
        weights, given = np.arange(4, dtype=np.float32), np.array([1, -2, 3, 0.5], np.float32)
        (folder / "weights.bin").write_bytes(weights.tobytes())
        (folder / "vectors/0/input0.bin").write_bytes(given.tobytes())
        (folder / "vectors/0/output0.bin").write_bytes((2 * given + weights).tobytes())
        (folder / "manifest.json").write_text('{"name": "tiny", "x": [{"tolerance": 9}], "tolerance": 1e-05}\n')
        if is_half:
            for name in ("input0", "output0"):
                (folder / f"vectors/0/{name}.bin").write_bytes(np.linspace(1, 1.5, 4, dtype=np.float16).tobytes())
            (folder / "manifest.json").write_text('{"name": "tiny", "tolerance": 0.005}\n')
        if several:
            (folder / "vectors/negate/0").mkdir(parents=True)
            (folder / "vectors/negate/0/input0.bin").write_bytes(given.tobytes())
            (folder / "vectors/negate/0/output0.bin").write_bytes((-given).tobytes())
            (folder / "manifest.json").write_text('{"format": 3, "tolerance": 1e-05}\n')
        return folder

    def _run(self, *words: str, folder: Path | None = None) -> None:
        ended = subprocess.run([*self.command, *words], cwd=folder, check=False, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr[-3000:]


@dataclass
class Publisher:
    """Signs releases of bundles."""

    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    @property
    def public(self) -> str:
        return self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()

    def publish(
        self, bundle: Path, sequence: int, architecture: str = "x86_64", features: str = "-", more: str = ""
    ) -> Path:
        """Put the signed text into the folder of the bundle. ``more`` follows the line of the expiry."""
        return self.sign(bundle, text_of(bundle, sequence, architecture, features, more))

    def sign(self, bundle: Path, text: bytes) -> Path:
        (bundle / "stable.runner").write_bytes(text)
        (bundle / "stable.sig").write_bytes(self.key.sign(text))
        return bundle


def text_of(bundle: Path, sequence: int, architecture: str = "x86_64", features: str = "-", more: str = "") -> bytes:
    names = sorted(str(each.relative_to(bundle)) for each in bundle.rglob("*") if each.is_file())
    names = [each for each in names if each not in ("manifest.json", "stable.runner", "stable.sig")]
    lines = [f"variant {architecture} {features} 1 tiny-{sequence}"]
    for name in ("manifest.json", *names):
        content = (bundle / name).read_bytes()
        lines.append(f"file {name} {len(content)} {hashlib.sha256(content).hexdigest()}")
    head = f"tunefarm-release 1\nchannel stable\nsequence {sequence}\nissued {ISSUED}\nexpires {EXPIRES}\n{more}"
    return (head + "\n".join(lines) + "\n").encode()


@dataclass(frozen=True)
class Device:
    """Runs the program of the runner; ``emulator`` stands in front of it."""

    program: Path
    public: str
    emulator: tuple[str, ...] = ()

    def __call__(self, *words: str | Path, fault: str = "", now: int = NOW) -> subprocess.CompletedProcess[str]:
        command = [*self.emulator, str(self.program), *map(str, words), "--key", self.public, "--now", str(now)]
        environment = {"TUNEFARM_FAULT": fault} if fault else {}
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=300, env=environment)

    def refusal(self, *words: str | Path, now: int = NOW) -> str:
        """The code of an error; empty after success."""
        ended = self(*words, now=now)
        assert ended.returncode >= 0, f"signal: {ended}"
        return ended.stderr.partition(":")[0] if ended.returncode else ""


def zig(target: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "ziglang", "cc", "-target", target)
