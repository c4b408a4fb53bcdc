"""tunefarm on one model, as a user runs it: compiled without a trial, and tuned."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.child_process import CommandFailed, run_command
from benchmarks.models.rivals import OURS, TUNED_RIVALS, WITH_LIBRARIES
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


@dataclass(frozen=True)
class TuningBudget:
    """What ends the tuning of a model, whichever comes first."""

    seconds: int
    trials: int = 100_000


def compile_ours(
    rivals: Sequence[str],
    model_path: Path,
    folder: Callable[[str], Path],
    home: Path,
    threads: int,
    budget: TuningBudget,
) -> tuple[dict[str, CompiledInfo], dict[str, str]]:
    """Compile with each of ours among ``rivals`` into its folder: what that took, or why it failed."""
    compiled: dict[str, CompiledInfo] = {}
    failures: dict[str, str] = {}
    for rival in (each for each in OURS if each in rivals):
        print(f"  compiles for {rival}", flush=True)
        libraries = rival in WITH_LIBRARIES
        try:
            if rival in TUNED_RIVALS:
                compiled[rival] = _compile_tuned(model_path, folder(rival), home, threads, budget, libraries)
            else:
                compiled[rival] = _compile_without_trials(model_path, folder(rival), home, threads, libraries)
        except CommandFailed as error:
            failures[rival] = str(error).strip().splitlines()[-1][-400:]
    return compiled, failures


def _compile_without_trials(model_path: Path, folder: Path, home: Path, threads: int, libraries: bool) -> CompiledInfo:
    """Run ``tunefarm compile`` with an empty store."""
    arguments = ["compile", str(model_path), "--target", f"host:{threads}", "--output", str(folder), "--json"]
    return _compiled([*arguments, "--fresh", _choice(libraries)], home, threads)


def _compile_tuned(
    model_path: Path, folder: Path, home: Path, threads: int, budget: TuningBudget, libraries: bool
) -> CompiledInfo:
    """Tune the model into ``folder``, which a later run with the same budget uses again.

    A store that has the records takes no trials.
    """
    kept = folder / f"tuned-{budget.seconds}-seconds-{budget.trials}-trials.json"
    if kept.exists():
        return CompiledInfo.model_validate_json(kept.read_text(encoding="utf-8"))
    tuning = ["tune", str(model_path), "--target", f"host:{threads}", "--seconds", str(budget.seconds)]
    tuning += ["--trials", str(budget.trials), _choice(libraries)]
    wall_s, summary = _tunefarm(
        [*tuning, "--output", str(folder), "--json"], home, threads, budget.seconds + TIMEOUT_S, shows_progress=True
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
