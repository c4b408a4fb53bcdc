"""Runs a program for WebAssembly with a folder that it may read: ``python run_wasm.py PROGRAM FOLDER``."""

import sys

import wasmtime


def main(program: str, folder: str) -> int:
    engine = wasmtime.Engine()
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    settings = wasmtime.WasiConfig()
    settings.argv = ["self_test", "/bundle"]
    settings.preopen_dir(folder, "/bundle", fs_mutable=False)
    settings.inherit_stdout()
    settings.inherit_stderr()
    store = wasmtime.Store(engine)
    store.set_wasi(settings)
    instance = linker.instantiate(store, wasmtime.Module.from_file(engine, program))
    start = instance.exports(store)["_start"]
    assert isinstance(start, wasmtime.Func)
    try:
        start(store)
    except wasmtime.ExitTrap as ended:
        return int(ended.code)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
