"""A few fixed cases of each target of ``make fuzz``, and every case that once failed."""

import json
import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from fuzz import confined_targets
from fuzz.__main__ import TARGETS, main
from fuzz.target import FuzzTarget

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))
WITHOUT_SERVICE = ("message", "intake", "trace", "import")


@pytest.fixture(scope="module")
def target_of() -> Iterator[Callable[[str], FuzzTarget]]:
    """Create each target once, all with the same fork servers, which take seconds to start."""
    made: dict[str, FuzzTarget] = {}
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(confined_targets, "ConfinedDoor", cache(confined_targets.ConfinedDoor))

    def one(name: str) -> FuzzTarget:
        if name not in made:
            made[name] = TARGETS[name]()
        return made[name]

    yield one
    for target in made.values():
        target.close()
    monkeypatch.undo()


@pytest.mark.parametrize("name", WITHOUT_SERVICE)
def test_fuzz_target_passes_a_few_cases(name: str, target_of: Callable[[str], FuzzTarget]):
    target = target_of(name)
    for number in range(100 if name == "message" else 4):
        case = target.make(random.Random(f"smoke {name} {number}"))
        assert target.check(case) is None, case


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_fixed_finding_stays_fixed(path: Path, target_of: Callable[[str], FuzzTarget]):
    kept = json.loads(path.read_text())
    target = target_of(kept["target"])
    assert target.check(kept["case"]) is None


@pytest.mark.parametrize("name", WITHOUT_SERVICE)
def test_same_seed_creates_same_cases(name: str, target_of: Callable[[str], FuzzTarget]):
    target = target_of(name)
    made = [[target.make(random.Random(f"7 {number}")) for number in range(5)] for _ in range(2)]
    assert made[0] == made[1]


def test_finding_is_written_for_replay(tmp_path: Path, monkeypatch, capsys):
    class Broken:
        def make(self, chance: random.Random) -> str:
            return str(chance.random())

        def check(self, case: str) -> str | None:
            return f"{case} is wrong"

        def close(self) -> None:
            pass

    monkeypatch.setattr("fuzz.__main__.TARGETS", {"message": Broken})
    monkeypatch.setattr("fuzz.__main__.MAX_FINDINGS", 1)
    assert main(["--alone", "--target", "message", "--output", str(tmp_path)]) == 1
    (kept,) = tmp_path.iterdir()
    capsys.readouterr()
    assert main(["--replay", str(kept)]) == 1
    assert "is wrong" in capsys.readouterr().out
