"""What is read from a module for WebAssembly, and which requests for one are refused before anything is built."""

from pathlib import Path

import pytest

from tunefarm.bundle.cuda.nvcc import Nvcc
from tunefarm.bundle.form_files import compiler_of, form_files
from tunefarm.bundle.link.linking import linked
from tunefarm.bundle.link.toolchain import BundleToolchain
from tunefarm.bundle.messages import PlannedEntry, PlannedParts
from tunefarm.bundle.wasm.module_facts import facts_of_module, require_exports, stripped
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.model import ModelEntry
from tunefarm_schemas.tuning.target import Target

MAGIC = b"\0asm\1\0\0\0"
WASM = Target(canonical='{"kind":"llvm","mtriple":"wasm32-unknown-unknown-wasm"}', kind="llvm", num_cores=1)
ARM = Target(canonical='{"kind":"llvm","mtriple":"aarch64-linux-gnu"}', kind="llvm", num_cores=4)


def name(text: str) -> bytes:
    return bytes((len(text),)) + text.encode()


def section(kind: int, content: bytes) -> bytes:
    return bytes((kind, len(content))) + content


MEMORY = section(5, b"\1\0\1")
EXPORTS = section(7, b"\2" + name("run") + b"\0\0" + name("memory") + b"\2\0")
FEATURES = section(0, name("target_features") + b"\2+" + name("simd128") + b"-" + name("atomics"))
NAMES = section(0, name("name") + bytes(8))
MODULE = MAGIC + MEMORY + EXPORTS + NAMES + FEATURES


def test_facts_are_exports_and_features() -> None:
    facts = facts_of_module(MODULE)
    assert (facts.exports, facts.imports, facts.features) == (("memory", "run"), 0, ("simd128",))
    require_exports(facts, frozenset({"run", "memory"}))


def test_stripped_module_keeps_its_features() -> None:
    assert stripped(MODULE) == MAGIC + MEMORY + EXPORTS + FEATURES


def test_module_with_imports_or_other_exports_is_refused() -> None:
    imports = section(2, b"\1" + name("env") + name("system") + b"\0\0")
    with pytest.raises(BadInput, match="imports 1 functions of its host"):
        require_exports(facts_of_module(MAGIC + imports + EXPORTS), frozenset({"run", "memory"}))
    with pytest.raises(BadInput, match="other exports than expected: run"):
        require_exports(facts_of_module(MODULE), frozenset({"memory"}))


@pytest.mark.parametrize("content", [b"", b"\x7fELF", MODULE[:20], MAGIC + b"\7\xff\xff", MAGIC + b"\7\2\1\x80"])
def test_other_content_is_no_module(content: bytes) -> None:
    with pytest.raises(BadInput, match="is not a module"):
        facts_of_module(content)


@pytest.mark.parametrize(
    ("target", "cc", "problem"),
    [(ARM, "", "contain code for WebAssembly, not for aarch64-linux-gnu"), (WASM, "clang", "are linked by Zig")],
)
def test_form_wasm_is_linked_by_zig_for_wasm_targets(target: Target, cc: str, problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        compiler_of("wasm", target, cc)


def test_blocks_that_no_module_can_allocate_are_refused(tmp_path: Path) -> None:
    entry = PlannedEntry(constant="net", entry=ModelEntry(name="main", inputs=(), outputs=(), is_tuple=False))
    parts = PlannedParts(
        target=WASM,
        notes=(),
        code_generator="",
        tvm_version="",
        entries=(entry,),
        tasks=(),
        cpu_features=(),
        reason_it_cannot_run_here=None,
        rest_json=None,
        source="",
        header="",
        weights_bytes=1 << 31,
    )
    zig = BundleToolchain("wasm32", ("zig", "cc"), ("zig", "ar"), "zig", "0", is_zig=True)
    with pytest.raises(BadInput, match="a module has 32-bit addresses"):
        form_files("wasm", zig, {}, {}, parts, tmp_path, linked, Nvcc.compiled)
