"""A kernel library that does nothing, for simulated devices and for tests that store, send or load one."""

import tempfile
from functools import cache
from pathlib import Path

from tunefarm_workers.builder.linker import link, link_kernel, linker_command

SOURCE = """
int __tvm_ffi_main(void *handle, const void *arguments, int count, void *result) { return 0; }
"""


@cache
def kernel_library(source: str = SOURCE) -> bytes:
    """Compile and link ``source``, in C, as kernels are."""
    with tempfile.TemporaryDirectory(prefix="kernel-") as name:
        folder = Path(name)
        (folder / "kernel.c").write_text(source)
        objects = str(folder / "kernel.o")
        link([*linker_command(), "-c", "-fPIC", "-O1", "-fno-builtin", "-o", objects, str(folder / "kernel.c")])
        link_kernel(linker_command(), folder / "kernel.so", [objects], ["-lm"], folder)
        return (folder / "kernel.so").read_bytes()
