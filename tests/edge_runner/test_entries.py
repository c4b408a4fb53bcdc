"""The runner runs and tests each entry of a release with several."""

from pathlib import Path

import numpy as np
import pytest

from tests.edge_runner.toolchain import Compiler, Device, Publisher

GIVEN = np.array([1, -2, 3, 0.5], np.float32)
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tunefarm_runner.h"
int main(int count, char **words) {
  unsigned char key[32];
  for (int i = 0; i < 32 && count == 3; ++i) {
    char byte[3] = {words[2][2 * i], words[2][2 * i + 1], 0};
    key[i] = (unsigned char)strtoul(byte, NULL, 16);
  }
  TunefarmRunnerKeys keys = {key, 1};
  TunefarmRunnerOptions options = {0};
  TunefarmRunner *runner;
  if (tunefarm_runner_open(words[1], &keys, 1790000000, &options, &runner) != TUNEFARM_RUNNER_OK) return 2;
  static _Alignas(64) float given[16] = {1, -2, 3, 0.5f}, made[16];
  void *inputs[] = {given}, *outputs[] = {made};
  printf("%d tensors, ", tunefarm_runner_tensors(runner, TUNEFARM_RUNNER_INPUT));
  if (tunefarm_runner_run(runner, inputs, outputs) == TUNEFARM_RUNNER_OK) return 3;
  puts(tunefarm_runner_message());
  for (int i = 0; i < tunefarm_runner_entries(runner); ++i) {
    const char *name = tunefarm_runner_entry(runner, i);
    if (tunefarm_runner_select(runner, name) != TUNEFARM_RUNNER_OK) return 4;
    if (tunefarm_runner_run(runner, inputs, outputs) != TUNEFARM_RUNNER_OK) return 5;
    printf("%s %g %g %g %g\n", name, made[0], made[1], made[2], made[3]);
  }
  int ends = tunefarm_runner_entry(runner, 2) == NULL && tunefarm_runner_entry(runner, -1) == NULL;
  tunefarm_runner_close(runner);
  return ends ? 0 : 6;
}
"""


@pytest.fixture(scope="module")
def source(compiler: Compiler, publisher: Publisher, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("several") / "bundle"
    return publisher.publish(compiler.tiny_model(folder, several=True), 1)


@pytest.fixture
def root(device: Device, source: Path, tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    assert device.refusal("install", tmp_path / "root", source) == ""
    return tmp_path / "root"


def test_command_runs_the_named_entry(device: Device, root: Path, tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(GIVEN.tobytes())
    expected = {"tiny": 2 * GIVEN + np.arange(4, dtype=np.float32), "negate": -GIVEN}
    for name, result in expected.items():
        ended = device("run", root, tmp_path / "input", "--entry", name, "--output", tmp_path / "y")
        assert ended.returncode == 0, ended.stderr
        np.testing.assert_array_equal(np.fromfile(tmp_path / "y0.bin", np.float32), result)


@pytest.mark.parametrize(
    ("words", "problem"), [((), "has several entries"), (("--entry", "other"), "has no entry other")]
)
def test_command_without_a_known_entry_lists_the_entries(
    device: Device, root: Path, words: tuple[str, ...], problem: str
) -> None:
    ended = device("run", root, *words)
    assert ended.returncode != 0
    assert f"load_failed: the release {problem}; name one of: tiny, negate" in ended.stderr


def test_self_test_runs_the_vectors_of_every_entry(
    compiler: Compiler, publisher: Publisher, device: Device, root: Path, tmp_path: Path
) -> None:
    assert device.refusal("self-test", root) == ""
    wrong = compiler.tiny_model(tmp_path / "wrong", several=True)
    (wrong / "vectors/negate/0/output0.bin").write_bytes(GIVEN.tobytes())
    assert device.refusal("install", root, publisher.publish(wrong, 2)) == "self_test_failed"
    assert device.refusal("run", root, "--entry", "negate") == ""


def test_program_selects_entries(
    compiler: Compiler, objects: list[Path], publisher: Publisher, root: Path, tmp_path: Path
) -> None:
    import subprocess

    (tmp_path / "program.c").write_text(PROGRAM)
    program = compiler.program(tmp_path / "program.c", objects, tmp_path / "program")
    ended = subprocess.run([program, root, publisher.public], check=False, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout.splitlines()) == (
        0,
        [
            "0 tensors, the release has several entries; name one of: tiny, negate",
            "tiny 2 -3 8 4",
            "negate -1 2 -3 -0.5",
        ],
    )
