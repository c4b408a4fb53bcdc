"""Builds programs for other machines with Zig's compiler, and runs them under an emulator or an engine."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

HERE: Final = Path(__file__).parent
RUNTIME: Final = HERE.parents[1] / "deploy/edge/runtime"
ZIG: Final = (sys.executable, "-m", "ziglang")
_EMULATORS: Final = HERE.parents[1] / ".venv/emulators/usr/bin"
Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Machine:
    """How programs for a target are compiled and run.

    Attributes:
        compiler: a C compiler that links programs of the machine, with its first arguments.
        emulator: the command in front of the program; empty on this machine's own architecture.
        is_wasm: whether programs run in a WebAssembly engine instead.
    """

    compiler: tuple[str, ...]
    emulator: tuple[str, ...] = ()
    is_wasm: bool = False

    def link(self, objects: Sequence[Path], program: Path) -> None:
        """Compile the runtime and the caller, and link them with a kernel."""
        serial = ["-DTUNEFARM_RUNTIME_SERIAL"] if self.is_wasm else ["-pthread"]
        sources = [RUNTIME / "tunefarm_runtime.c", HERE / "run_kernel.c"]
        command = [*self.compiler, "-std=c11", "-O1", "-I", RUNTIME, *serial, *sources, *objects, "-lm", "-o", program]
        subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True, timeout=600)

    def call(self, program: Path, arguments: Sequence[Array], threads: int = 1) -> list[Array]:
        """Call the kernel; returns all arguments as it leaves them."""
        given = _written(arguments, threads)
        output = _in_engine(program, given) if self.is_wasm else self._in_process(program, given)
        return _read(output, arguments)

    def _in_process(self, program: Path, given: bytes) -> bytes:
        command = [*(emulator(self.emulator[0]), *self.emulator[1:])] if self.emulator else []
        ended = subprocess.run([*command, program], input=given, capture_output=True, timeout=600, check=False)
        assert ended.returncode == 0, ended.stderr.decode(errors="replace")
        return ended.stdout


def emulator(name: str) -> str:
    found = shutil.which(name, path=str(_EMULATORS)) or shutil.which(name)
    assert found is not None, f"{name} is missing: run make test-targets, or install qemu-user-static"
    return found


def _in_engine(program: Path, given: bytes) -> bytes:
    import wasmtime

    from tests.targets.run_wasm import exit_code

    with tempfile.TemporaryDirectory() as folder:
        given_file, output = Path(folder, "given"), Path(folder, "output")
        given_file.write_bytes(given)
        settings = wasmtime.Config()
        settings.wasm_simd = True
        engine = wasmtime.Engine(settings)
        system = wasmtime.WasiConfig()
        system.stdin_file, system.stdout_file = str(given_file), str(output)
        system.inherit_stderr()
        assert exit_code(engine, wasmtime.Module.from_file(engine, str(program)), system) == 0
        return output.read_bytes()


def _written(arguments: Sequence[Array], threads: int) -> bytes:
    codes = {"i": 0, "u": 1, "f": 2}
    parts = [np.array([threads, len(arguments)], np.int64).tobytes()]
    for each in arguments:
        header = [codes[each.dtype.kind], each.itemsize * 8, each.ndim, *each.shape]
        parts += [np.array(header, np.int64).tobytes(), np.ascontiguousarray(each).tobytes()]
    return b"".join(parts)


def _read(output: bytes, arguments: Sequence[Array]) -> list[Array]:
    found, at = [], 0
    for each in arguments:
        found.append(np.frombuffer(output[at : at + each.nbytes], each.dtype).reshape(each.shape))
        at += each.nbytes
    assert at == len(output)
    return found
