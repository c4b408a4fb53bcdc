"""Fills a study of Optuna, and serves its dashboard. Runs in an environment of its own that has Optuna.

python optuna_study.py STUDY.db TRIALS PORT
"""

import random
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final

import optuna
import optuna_dashboard

_CHUNK: Final = 20_000
_DECISIONS: Final = 4


def main(path: str, trials: int, port: int) -> None:
    """Fill and serve. Does not return."""
    url = f"sqlite:///{path}"
    study = optuna.create_study(storage=url, study_name="matmul", load_if_exists=True)
    if not study.get_trials(deepcopy=False):
        study.optimize(_objective, n_trials=1)
        with closing(sqlite3.connect(path)) as file:
            _copy_trials(file, trials)
    optuna_dashboard.run_server(url, host="127.0.0.1", port=port)


def _objective(trial: Any) -> float:
    return sum(float(trial.suggest_float(f"decision_{number}", 0, 1)) for number in range(_DECISIONS))


def _copy_trials(file: sqlite3.Connection, trials: int) -> None:
    """Insert copies of the only trial, with values that improve as those of a search do."""
    file.row_factory = sqlite3.Row
    file.execute("PRAGMA synchronous = OFF")
    trial = dict(file.execute("SELECT * FROM trials").fetchone())
    parameters = [dict(row) for row in file.execute("SELECT * FROM trial_params")]
    value = dict(file.execute("SELECT * FROM trial_values").fetchone())
    chance = random.Random(0)
    for begin in range(1, trials, _CHUNK):
        numbers = range(begin, min(begin + _CHUNK, trials))
        _insert(file, "trials", ({**trial, "trial_id": n + 1, "number": n} for n in numbers))
        _insert(file, "trial_params", _parameters(chance, parameters, numbers))
        _insert(file, "trial_values", (_value(chance, value, number) for number in numbers))
        file.commit()


def _parameters(
    chance: random.Random, first: Sequence[dict[str, Any]], numbers: Sequence[int]
) -> Iterator[dict[str, Any]]:
    for number in numbers:
        for place, each in enumerate(first):
            identity = number * len(first) + place + 1
            yield {**each, "param_id": identity, "trial_id": number + 1, "param_value": chance.random()}


def _value(chance: random.Random, first: dict[str, Any], number: int) -> dict[str, Any]:
    value = 8e-4 + 4e-3 / (1 + number / 50) * (1 + chance.expovariate(1.0))
    return {**first, "trial_value_id": number + 1, "trial_id": number + 1, "value": value}


def _insert(file: sqlite3.Connection, table: str, rows: Iterator[dict[str, Any]]) -> None:
    first = next(rows)
    statement = f"INSERT INTO {table} ({', '.join(first)}) VALUES ({', '.join('?' * len(first))})"
    file.execute(statement, tuple(first.values()))
    file.executemany(statement, (tuple(each.values()) for each in rows))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
