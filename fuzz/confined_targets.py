"""Entry points where TVM reads input: modules, databases, traces. Input may crash a child, and nothing else."""

import json
import os
import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from fuzz.mutation import mutated_bytes, mutated_json
from fuzz.seeds import TARGET, database_texts, seeds
from fuzz.trace_child import ENTRY, AppliedTrace, Script
from tunefarm.confined.call import call
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_search.tvm.loading import LOAD_TVM
from tunefarm_services.api.intake.intake import Intake
from tunefarm_services.api.intake.intake_messages import (
    ModuleAnswer,
    ModuleQuestion,
    ModuleText,
    TargetText,
)
from tunefarm_services.api.settings import ApiSettings

ROOT: Final = Path(__file__).resolve().parents[1]
TIMEOUT_S: Final = 10.0
GRACE_S: Final = 5.0
CHILD_ENDS_S: Final = 5.0
FORBIDDEN: Final = re.compile(
    r"call_(?:extern|packed|cpacked|pure_extern)|call_llvm|\"pragma_(?:import|scope_prefix)|extern_scope|compute_scope"
    r"|\bT\.asm|inline_asm|tvm_call_|call_tir|\bI\.ExternFunc|start_profile|tvm_struct_|lookup_param|\bdlopen"
)
"""Text that a printed function must not contain. The oracle reads TVM's script, independently of the validation."""


class ConfinedDoor:
    """Fork servers, and the invariants to check after each case."""

    def __init__(self) -> None:
        others = set(children_of("self"))
        settings = ApiSettings(intake_timeout_s=TIMEOUT_S, import_timeout_s=TIMEOUT_S)
        self.intake = Intake(settings)
        self.intake.start()
        while self.intake.state() == "loading":
            time.sleep(0.05)
        preload = (LOAD_TVM, "fuzz.trace_child")
        self.fork_server = ForkServer.start(preload, environment={**os.environ, "PYTHONPATH": str(ROOT)})
        self._fork_servers = set(children_of("self")) - others

    def judged(self, act: Callable[[], str | None]) -> str | None:
        """Run one case. Return its finding, or a violated invariant of processes or time."""
        began_s = time.monotonic()
        try:
            found = act()
        except BadInput as refused:
            # TVM may end its child by a signal, but not by an unexpected exception.
            found = refused.problem if "exited with code" in refused.problem else None
        except Exception as error:  # noqa: BLE001 - any other exception is what is looked for
            found = f"{type(error).__name__}: {str(error)[:500]}"
        took_s = time.monotonic() - began_s
        if found is None and took_s > TIMEOUT_S + GRACE_S:
            found = f"it took {took_s:.1f} s, {TIMEOUT_S:g} s are allowed"
        return found or self._left_behind()

    def close(self) -> None:
        """End the fork servers."""
        self.intake.close()
        self.fork_server.close()

    def _left_behind(self) -> str | None:
        if self._fork_servers - set(children_of("self")):
            return "a fork server died"
        deadline_s = time.monotonic() + CHILD_ENDS_S
        while left := [child for fork_server in self._fork_servers for child in children_of(fork_server)]:
            if time.monotonic() > deadline_s:
                return f"children are left: {left}"
            time.sleep(0.01)
        return None


class IntakeTarget:
    """Modules, in the API's intake."""

    def __init__(self) -> None:
        self._door = ConfinedDoor()
        self._seeds = [seed.module_json for seed in seeds()]
        self._pool = pool_of(self._seeds)

    def make(self, chance: random.Random) -> str:
        """Create a module with changed nodes, or sometimes broken text."""
        text = chance.choice(self._seeds)
        if chance.random() < 0.1:
            return mutated_bytes(text.encode(), chance).decode(errors="replace")
        return mutated_json(text, chance, self._pool)

    def check(self, case: str) -> str | None:
        """Read it."""
        return self._door.judged(lambda: self._read(case))

    def close(self) -> None:
        """End the fork servers."""
        self._door.close()

    def _read(self, case: str) -> str | None:
        module = ModuleText(module_json=case, all_functions=True)
        answer = self._door.intake.read(ModuleQuestion(modules=(module,), target=TargetText(text=TARGET)))
        for each in answer.workloads:
            script = call(
                self._door.fork_server,
                ENTRY,
                AppliedTrace(module_json=each.workload.module_json),
                Script,
                field="module",
            )
            if forbidden := FORBIDDEN.search(script.text):
                return f"an accepted module contains {forbidden.group()}"
        return None


class TraceTarget:
    """Traces and sketches, in the API's intake."""

    def __init__(self) -> None:
        self._door = ConfinedDoor()
        self._seeds = seeds()
        self._pool = pool_of([text for seed in self._seeds for text in seed.traces])

    def make(self, chance: random.Random) -> str:
        """Create a module's number, whether the trace is a sketch, and a changed trace."""
        number = chance.randrange(len(self._seeds))
        seed = self._seeds[number if chance.random() < 0.9 else 0]
        trace = mutated_json(chance.choice(seed.traces), chance, self._pool)
        return json.dumps({"seed": number, "sketch": chance.random() < 0.3, "trace": trace})

    def check(self, case: str) -> str | None:
        """Apply it; if it is accepted, check the resulting function."""
        return self._door.judged(lambda: self._apply(json.loads(case)))

    def close(self) -> None:
        """End the fork servers."""
        self._door.close()

    def _apply(self, case: dict[str, Any]) -> str | None:
        module_json, texts = self._seeds[case["seed"]].module_json, (case["trace"],)
        module = ModuleText(module_json=module_json, name="main")
        field = "sketches" if case["sketch"] else "seed_traces"
        question = ModuleQuestion.model_validate({"modules": (module,), field: texts})
        answer: ModuleAnswer = self._door.intake.read(question)
        workload = answer.workloads[0].workload
        texts_accepted = [each.text for each in answer.seed_traces] + [each.text for each in answer.sketches]
        for accepted in texts_accepted:
            applied = AppliedTrace(module_json=workload.module_json, trace=accepted)
            script = call(self._door.fork_server, ENTRY, applied, Script, field="trace")
            if forbidden := FORBIDDEN.search(script.text):
                return f"an accepted trace makes a function that contains {forbidden.group()}"
        return None


class ImportTarget:
    """Both files of a TVM database, as the service and the command import them."""

    def __init__(self) -> None:
        self._door = ConfinedDoor()
        self._seeds = database_texts()

    def make(self, chance: random.Random) -> str:
        """Create both files, one of them with a changed line or changed bytes."""
        workloads, records = chance.choice(self._seeds)
        match chance.randrange(4):
            case 0:
                workloads = _line_changed(workloads, chance)
            case 1:
                workloads = mutated_bytes(workloads.encode(), chance).decode(errors="replace")
            case 2:
                records = mutated_bytes(records.encode(), chance).decode(errors="replace")
            case _:
                records = _line_changed(records, chance)
        return json.dumps({"workloads": workloads, "records": records})

    def check(self, case: str) -> str | None:
        """Read it line by line."""
        return self._door.judged(lambda: self._read(json.loads(case)))

    def close(self) -> None:
        """End the fork servers."""
        self._door.close()

    def _read(self, text: dict[str, str]) -> str | None:
        workloads, records = (text[name].split("\n") for name in ("workloads", "records"))
        read = self._door.intake.read_database(workloads, records, ())
        reasons = [line.reason for batch in read for line in batch.refused]
        return next((reason for reason in reasons if "exited with code" in reason), None)


def pool_of(texts: list[str]) -> list[Any]:
    """The scalars of valid inputs, and the numbers by which nodes refer to each other."""
    found: dict[str, Any] = {}
    waiting: list[Any] = [json.loads(text) for text in texts]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        else:
            found.setdefault(repr(value), value)
    return [*found.values(), *range(60)]


def children_of(process: int | str) -> list[int]:
    """The processes that all threads of a process started and did not reap."""
    found = []
    for tasks in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            found += [int(word) for word in tasks.read_text().split()]
        except OSError:
            continue
    return sorted(found)


def _line_changed(text: str, chance: random.Random) -> str:
    lines = text.splitlines()
    at = chance.randrange(len(lines))
    lines[at] = mutated_json(lines[at], chance)
    return "\n".join(lines) + "\n"
