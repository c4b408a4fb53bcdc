"""Small models that have tasks in common, and tenants of a farm that submit them over HTTP."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import httpx
import numpy as np
import tvm
from tvm import relax

from tests.farm.workers import eventually
from tests.faults.whole_farm import WholeFarm
from tests.search.relax.models import SmallModel, one_entry, random_array
from tunefarm_schemas.token import Scope
from tunefarm_schemas.tuning.job import Exploration
from tunefarm_services.store.stored import StoredTrial

TARGET: Final = {"kind": "llvm", "mcpu": "x86-64-v2", "num-cores": 1}
ROWS: Final = 4
FIRST: Final = (16, 24, 24, 10)
SECOND: Final = (16, 24, 24, 20, 12)
"""Its first two layers are those of ``FIRST``. The others have other shapes and, in TVM's names, other numbers."""
IN_COMMON: Final = 2
LATER: Final = (12, 16, 24, 24, 20, 12)
"""Has the first two layers of ``FIRST`` after another one, where their variables have other names."""
OTHER: Final = (20, 28, 14)
"""Has no task in common with the others."""
END_S: Final = 600.0


def perceptron(widths: Sequence[int]) -> SmallModel:
    """Dense layers from each width to the next, with biases, and rectifiers between them."""
    pairs = list(pairwise(widths))
    weights = tuple(array for number, (n, m) in enumerate(pairs) for array in _layer(n, m, number))

    def build(builder: Any, given: Sequence[Any], names: Sequence[Any]) -> Any:
        x = given[0]
        for number in range(len(pairs)):
            x = builder.emit(relax.op.add(relax.op.matmul(x, names[2 * number]), names[2 * number + 1]))
            x = x if number == len(pairs) - 1 else builder.emit(relax.op.nn.relu(x))
        return x

    def expected(x: Any) -> Any:
        for number in range(len(pairs)):
            x = x @ weights[2 * number] + weights[2 * number + 1]
            x = x if number == len(pairs) - 1 else np.maximum(x, 0)
        return x

    shape = (ROWS, widths[0])
    return SmallModel(one_entry(build, [shape], weights), {"main": weights}, (random_array(*shape),), expected)


def _layer(inputs: int, outputs: int, seed: int) -> tuple[Any, Any]:
    return random_array(inputs, outputs, seed=seed), random_array(outputs, seed=seed)


def model_json(widths: Sequence[int]) -> str:
    """The model in TVM JSON, with its weights as parameters."""
    return str(tvm.ir.save_json(perceptron(widths).module))


@dataclass(frozen=True)
class Tenant:
    """A tenant with a token of its own."""

    farm: WholeFarm
    name: str
    token: str

    @classmethod
    def on(cls, farm: WholeFarm, name: str) -> "Tenant":
        _, token = farm.store.tokens.create(name, "models", tuple(Scope))
        return cls(farm, name, token)

    @property
    def url(self) -> str:
        return str(json.loads((self.farm.home / "api.json").read_text())["url"])

    def request(self, method: str, path: str, body: object = None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.request(method, f"{self.url}{path}", json=body, headers=headers, timeout=90.0, verify=False)

    def get(self, path: str) -> Any:
        answer = self.request("GET", path)
        assert answer.is_success, answer.text
        return answer.json()

    def post(self, path: str, body: object = None) -> Any:
        answer = self.request("POST", path, body)
        assert answer.is_success, answer.text
        return answer.json()

    def submit(self, widths: Sequence[int], trials: int) -> str:
        body = {"module": model_json(widths), "target": TARGET, "effort": {"trials": trials}}
        return str(self.post("/v1/jobs", body)["job_id"])

    def wait_for(self, job_id: str, state: str) -> dict[str, Any]:
        """The job, once it is in ``state``. Dead processes of the farm are restarted in the meantime."""

        def reached() -> bool:
            self.farm.revive()
            return self.farm.store.jobs.get(self.name, job_id).state == state

        eventually(reached, END_S, f"{state} of a job of {self.name}")
        found: dict[str, Any] = self.get(f"/v1/jobs/{job_id}")
        return found

    def tuned(self, widths: Sequence[int], trials: int) -> str:
        """The id of a job that tuned a model."""
        job_id = self.submit(widths, trials)
        job = self.wait_for(job_id, "finished")
        assert job["outcome"] == "succeeded", job
        return job_id

    def tasks(self, job_id: str) -> list[dict[str, Any]]:
        """The tasks in the summary of a finished job, in the order of the model."""
        events = self.get(f"/v1/events?job_id={job_id}&page_size=500")["items"]
        summary = [event["data"] for event in events if event["kind"] == "summary"][-1]
        assert summary["of_model"]
        return list(summary["tasks"])

    def explorations(self, job_id: str) -> dict[str, Exploration]:
        """The explorations of a job's tasks, by workload."""
        found = self.farm.store.explorations.of_job(self.name, job_id)
        return {exploration.key.workload_id: exploration for exploration in found}

    def trials(self, exploration: Exploration) -> list[StoredTrial]:
        return self.farm.store.trials.of_exploration(exploration.exploration_id, tenant=self.name)

    def trials_of_job(self, job_id: str) -> list[StoredTrial]:
        return [trial for each in self.explorations(job_id).values() for trial in self.trials(each)]

    def await_trials(self, job_id: str, count: int, act: Callable[[], None] = lambda: None) -> None:
        """Wait until the job's tasks have ``count`` measured trials."""

        def measured() -> bool:
            act()
            return sum(trial.measurement is not None for trial in self.trials_of_job(job_id)) >= count

        eventually(measured, END_S, f"{count} trials of a job of {self.name}")
