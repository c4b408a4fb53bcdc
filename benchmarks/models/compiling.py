"""tunefarm on one model, as a user runs it: compiled without a trial, and tuned."""

import sys
from pathlib import Path
from typing import Any

from benchmarks.child_process import run_command
from tunefarm_schemas.frozen import Frozen

TIMEOUT_S = 3600.0


class CompiledInfo(Frozen):
    """What compiling a model took.

    Attributes:
        wall_s: of the whole command.
        stages: seconds of each, by name.
        functions: of the model that are scheduled, equal ones counted once.
        kinds: how many functions have which kind of schedule.
    """

    wall_s: float
    stages: dict[str, float]
    functions: int
    kinds: dict[str, int]


def compile_without_trials(
    model_path: Path, folder: Path, home: Path, threads: int, *, libraries: bool = False
) -> CompiledInfo:
    """Run ``tunefarm compile`` with an empty store.

    Raises:
        CommandFailed: it fails.
    """
    arguments = ["compile", str(model_path), "--target", f"host:{threads}", "--output", str(folder), "--json"]
    return _compiled([*arguments, "--fresh", _choice(libraries)], home, threads)


def compile_tuned(
    model_path: Path,
    folder: Path,
    home: Path,
    threads: int,
    seconds: int,
    trials: int = 100_000,
    *,
    libraries: bool = False,
) -> CompiledInfo:
    """Tune the model for ``seconds`` or ``trials``, then compile it with the records.

    A store that has them takes no trials.

    Raises:
        CommandFailed: a command fails.
    """
    tuning = ["tune", str(model_path), "--target", f"host:{threads}", "--seconds", str(seconds), "--json"]
    _tunefarm([*tuning, "--trials", str(trials)], home, threads, seconds + TIMEOUT_S)
    arguments = ["compile", str(model_path), "--target", f"host:{threads}", "--output", str(folder), "--json"]
    return _compiled([*arguments, _choice(libraries)], home, threads)


def _choice(libraries: bool) -> str:
    return "--libraries" if libraries else "--no-libraries"


def _compiled(arguments: list[str], home: Path, threads: int) -> CompiledInfo:
    wall_s, answer = _tunefarm(arguments, home, threads, TIMEOUT_S)
    kinds = [str(function["kind"]) for function in answer["functions"]]
    return CompiledInfo(
        wall_s=wall_s,
        stages={str(name): float(took_s) for name, took_s in answer["stages"].items()},
        functions=len(kinds),
        kinds={kind: kinds.count(kind) for kind in sorted(set(kinds))},
    )


def _tunefarm(arguments: list[str], home: Path, threads: int, timeout_s: float) -> tuple[float, dict[str, Any]]:
    command = str(Path(sys.executable).with_name("tunefarm"))
    environment = {"TUNEFARM_HOME": str(home)}
    finished = run_command([command, *arguments], cores=threads, environment=environment, timeout_s=timeout_s)
    return finished.wall_s, finished.last_json()
