"""Small bundles of the form ``library``, compiled from C by hand: outputs are inputs times a factor."""

import array
import json
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

RUNTIME = Path(__file__).resolve().parents[2] / "client/tunefarm/bundle/runtime"
ELEMENTS = 16
SOURCE = """
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "tunefarm_model.h"
typedef struct {
  uint32_t abi_version;
  const TunefarmModel *model;
  int (*run)(const TunefarmModel *, const void *, void *, void *const *, void *const *);
  const char *(*last_error)(void);
  int (*start_threads)(int);
  void (*release_workspaces)(void);
  int32_t count;
  const TunefarmModel *const *models;
} TunefarmBundle;
static const TunefarmModel model = {"scale", %(weights)d, 64, 1, 1, 0, 0, 0, 0, 0};
static const TunefarmModel negated = {"negate", %(weights)d, 128, 1, 1, 0, 0, 0, 0, 0};
static const TunefarmModel *const models[] = {&model, &negated};
static int run(const TunefarmModel *m, const void *weights, void *arena, void *const *inputs, void *const *outputs) {
  if (((uintptr_t)weights | (uintptr_t)arena | (uintptr_t)inputs[0] | (uintptr_t)outputs[0]) %% 64) return -1;
  %(extra)s
  const float *x = inputs[0], *factor = weights;
  for (int i = 0; i < %(elements)d; ++i) ((float *)outputs[0])[i] = m == &model ? x[i] * factor[0] : 0.0f - x[i];
  return 0;
}
static const char *last_error(void) { return "a tensor is not aligned"; }
static int start_threads(int threads) { (void)threads; return 0; }
static void release_workspaces(void) {}
static const TunefarmBundle bundle = {%(abi)d, &model, run, last_error, start_threads, release_workspaces, 2, models};
const TunefarmBundle *tunefarm_bundle(void) { return &bundle; }
"""


@cache
def library(
    extra: str = "", abi: int = 1, weights_bytes: int = 4096, compiler: Sequence[str] = ("cc",), when_loaded: str = ""
) -> bytes:
    """``model.so``; ``extra`` is C that runs before the model, ``when_loaded`` C that runs when it is loaded."""
    with TemporaryDirectory() as folder:
        source, made = Path(folder, "model.c"), Path(folder, "model.so")
        values = {"extra": extra, "abi": abi, "weights": weights_bytes, "elements": ELEMENTS}
        constructor = (
            f"__attribute__((constructor)) static void loaded(void) {{ {when_loaded} }}" if when_loaded else ""
        )
        source.write_text(f"#include <fcntl.h>\n{SOURCE % values}{constructor}\n")
        smaller = ("-s", "-Wl,-z,noseparate-code,--build-id=none,--hash-style=gnu") if when_loaded else ()
        flags = ("-std=gnu11", "-O1", "-shared", "-fPIC", *smaller)
        words = [*compiler, *flags, f"-I{RUNTIME}", str(source), "-o", str(made)]
        subprocess.run(words, check=True, capture_output=True, timeout=600)
        return made.read_bytes()


def numbers(*values: float) -> bytes:
    return array.array("f", values).tobytes()


INPUT = numbers(*range(ELEMENTS))


def scaled(factor: float) -> bytes:
    """What a bundle with this factor computes of ``INPUT``."""
    return numbers(*(value * factor for value in range(ELEMENTS)))


def bundle(
    factor: float,
    *,
    model: bytes | None = None,
    expected: float | None = None,
    weights: bytes = b"",
    libc: str | None = None,
) -> dict[str, bytes]:
    """The files of a bundle that multiplies by ``factor``; its vectors expect ``expected``, by default the same."""
    tensor = {"shape": [1, ELEMENTS], "dtype": "float32"}
    manifest = {
        "format": 1,
        "name": "scale",
        "num_cores": 1,
        "entry": {
            "name": "main",
            "inputs": [{"name": "x", "is_output": False, **tensor}],
            "outputs": [{"name": "y", "is_output": True, **tensor}],
        },
        "vectors": [{"inputs": ["vectors/0/input0.bin"], "outputs": ["vectors/0/output0.bin"]}],
        "tolerance": 1e-4,
        "requires": {"libc": libc},
    }
    return {
        "manifest.json": json.dumps(manifest).encode(),
        "model.so": library() if model is None else model,
        "weights.bin": (numbers(factor) + weights).ljust(4096, b"\0"),
        "vectors/0/input0.bin": INPUT,
        "vectors/0/output0.bin": scaled(factor if expected is None else expected),
    }


def bundle_of_two(factor: float, *, negated: float = -1.0) -> dict[str, bytes]:
    """A bundle with the entries ``scale`` and ``negate``; the vector of the second expects the factor ``negated``."""
    files = bundle(factor)
    manifest = json.loads(files["manifest.json"])
    second = json.loads(files["manifest.json"])["entry"] | {"name": "negate"}
    paths = {each: [f"vectors/negate/0/{each[:-1]}0.bin"] for each in ("inputs", "outputs")}
    other = {"constant": "model_negate", "entry": second, "arena_bytes": 128, "vectors": [paths]}
    manifest |= {"format": 3, "entry": manifest["entry"] | {"name": "scale"}, "others": [other]}
    vector = {"vectors/negate/0/input0.bin": INPUT, "vectors/negate/0/output0.bin": scaled(negated)}
    return files | vector | {"manifest.json": json.dumps(manifest).encode()}
