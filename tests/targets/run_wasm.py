"""Runs a program for WebAssembly with a folder that it may read: ``python run_wasm.py PROGRAM FOLDER``."""

import sys

import wasmtime


def exit_code(engine: wasmtime.Engine, module: wasmtime.Module, system: wasmtime.WasiConfig) -> int:
    """Run a program for WASI to its end."""
    store, linker = wasmtime.Store(engine), wasmtime.Linker(engine)
    linker.define_wasi()
    store.set_wasi(system)
    start = linker.instantiate(store, module).exports(store)["_start"]
    assert isinstance(start, wasmtime.Func)
    try:
        start(store)
    except wasmtime.ExitTrap as ended:
        return int(ended.code)
    return 0


def main(program: str, folder: str) -> int:
    engine = wasmtime.Engine()
    system = wasmtime.WasiConfig()
    system.argv = ["self_test", "/bundle"]
    system.preopen_dir(folder, "/bundle", fs_mutable=False)
    system.inherit_stdout()
    system.inherit_stderr()
    return exit_code(engine, wasmtime.Module.from_file(engine, program), system)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
