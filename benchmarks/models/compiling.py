"""tunefarm on one model, as a user runs it: compiled without a trial, and tuned."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.child_process import run_command
from tunefarm.artifact.artifact_folder import MANIFEST_NAME
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.model import ModelManifest

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
    """Tune the model for ``seconds`` or ``trials`` into ``folder``, which a later run of as many uses again.

    A store that has the records takes no trials.

    Raises:
        CommandFailed: the command fails.
    """
    kept = folder / f"tuned-{seconds}-seconds-{trials}-trials.json"
    if kept.exists():
        return CompiledInfo.model_validate_json(kept.read_text(encoding="utf-8"))
    tuning = ["tune", str(model_path), "--target", f"host:{threads}", "--seconds", str(seconds)]
    tuning += ["--trials", str(trials), _choice(libraries)]
    wall_s, summary = _tunefarm(
        [*tuning, "--output", str(folder), "--json"], home, threads, seconds + TIMEOUT_S, shows_progress=True
    )
    manifest = ModelManifest.model_validate_json((folder / MANIFEST_NAME).read_text(encoding="utf-8"))
    info = _info(wall_s, summary["seconds"], [each.kind for each in manifest.functions])
    kept.write_text(info.model_dump_json(indent=1), encoding="utf-8")
    return info


def _choice(libraries: bool) -> str:
    return "--libraries" if libraries else "--no-libraries"


def _compiled(arguments: list[str], home: Path, threads: int) -> CompiledInfo:
    wall_s, answer = _tunefarm(arguments, home, threads, TIMEOUT_S)
    return _info(wall_s, answer["stages"], [str(function["kind"]) for function in answer["functions"]])


def _info(wall_s: float, stages: Mapping[str, float], kinds: Sequence[str]) -> CompiledInfo:
    return CompiledInfo(
        wall_s=wall_s,
        stages={name: float(took_s) for name, took_s in stages.items()},
        functions=len(kinds),
        kinds={kind: kinds.count(kind) for kind in sorted(set(kinds))},
    )


def _tunefarm(
    arguments: list[str], home: Path, threads: int, timeout_s: float, *, shows_progress: bool = False
) -> tuple[float, dict[str, Any]]:
    command = str(Path(sys.executable).with_name("tunefarm"))
    finished = run_command(
        [command, *arguments],
        cores=threads,
        environment={"TUNEFARM_HOME": str(home)},
        timeout_s=timeout_s,
        shows_progress=shows_progress,
    )
    return finished.wall_s, finished.last_json()
