"""Models over several explorations of a target on a device class, trained while a tuner has nothing else to do."""

import threading
import time
from collections import OrderedDict
from contextlib import suppress
from typing import Final

import structlog

from tunefarm_sandbox.channel.channel import ChannelClosed
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.fork_server import Child, ForkFailed
from tunefarm_schemas.tuning.job import Exploration
from tunefarm_services.store.store import Store
from tunefarm_services.store.store_error import StoreError
from tunefarm_services.tuner.search.search_messages import KnownTrial
from tunefarm_services.tuner.service.training_messages import Trained, TrainingExploration, TrainingOrder
from tunefarm_services.tuner.service.zygotes import Zygotes

ENTRY: Final = "tunefarm_services.tuner.service.training_child:main"
MIN_EXPLORATIONS: Final = 2
MAX_EXPLORATIONS: Final = 6
MAX_TRIALS: Final = 200
"""Of each exploration, the latest."""
TRAINING_S: Final = 120.0
MEMORY_BYTES: Final = 16 << 30
"""Address space. Most of it is the shared libraries of the zygote, which cost nothing."""
_AUTOMATIC: Final = "automatic"
_MAX_RECORDS: Final = 256

log = structlog.get_logger()


class PooledTraining:
    """Remembers for which targets jobs ended, and trains a model for each when asked. May be used from threads."""

    def __init__(self, store: Store, zygotes: Zygotes) -> None:
        self._store = store
        self._zygotes = zygotes
        self._lock = threading.Lock()
        self._due: OrderedDict[tuple[str, str, str], None] = OrderedDict()

    def note(self, tenant: str, target_id: str, device_class_id: str) -> None:
        """A job of ``tenant`` has searched for this target on this device class."""
        with self._lock:
            self._due[tenant, target_id, device_class_id] = None

    def run(self, enough: threading.Event) -> None:
        """Train what is due until nothing is, or ``enough`` is set; what was begun then is due again."""
        while not enough.is_set():
            with self._lock:
                if not self._due:
                    return
                due, _ = self._due.popitem(last=False)
            try:
                if not self.train(*due, enough):
                    self.note(*due)
                    return
            except (StoreError, ForkFailed) as error:
                log.warning("no pooled model was trained", reason=str(error))

    def train(self, tenant: str, target_id: str, device_class_id: str, enough: threading.Event) -> bool:
        """Train and store one model; False when ``enough`` came first. Raises StoreError, ForkFailed."""
        order = self._order(tenant, target_id, device_class_id)
        if order is None:
            return True
        began_s = time.monotonic()
        child = self._zygotes.present().fork(
            ENTRY,
            order.model_dump_json().encode(),
            limits=Limits(memory_bytes=MEMORY_BYTES),
            confinement=Confinement.strict(),
        )
        try:
            answer = self._answer(child, enough)
        finally:
            child.kill()
            child.exit(2.0)
        trials = sum(len(exploration.known) for exploration in order.explorations)
        if answer is not None and answer.model_json is not None:
            self._store.models.put(tenant, target_id, device_class_id, answer.model_json.encode(), trials)
            log.info("a pooled model was trained", trials=trials, seconds=round(time.monotonic() - began_s, 2))
        return answer is not None

    @staticmethod
    def _answer(child: Child, enough: threading.Event) -> Trained | None:
        """What the child gives; a model of nothing when it dies or takes too long, None once ``enough`` is set."""
        deadline_s = time.monotonic() + TRAINING_S
        while not enough.is_set() and time.monotonic() < deadline_s:
            with suppress(TimeoutError):
                try:
                    return Trained.model_validate_json(child.channel.receive(0.2))
                except ChannelClosed:
                    return Trained(model_json=None)
        return None if enough.is_set() else Trained(model_json=None)

    def _order(self, tenant: str, target_id: str, device_class_id: str) -> TrainingOrder | None:
        """The explorations to learn from, those with the latest records first; None when they are too few."""
        records = self._store.records.page(
            tenant, target_id=target_id, device_class_id=device_class_id, limit=_MAX_RECORDS
        )
        records.sort(key=lambda record: record.created_at, reverse=True)
        ids = list(dict.fromkeys(record.exploration_id for record in records if record.exploration_id is not None))
        explorations = [self._store.explorations.get(tenant, exploration_id) for exploration_id in ids]
        wanted = [one for one in explorations if one.key.space_id == _AUTOMATIC][:MAX_EXPLORATIONS]
        if len(wanted) < MIN_EXPLORATIONS:
            return None
        return TrainingOrder(explorations=tuple(self._training(tenant, one) for one in wanted))

    def _training(self, tenant: str, exploration: Exploration) -> TrainingExploration:
        key = exploration.key
        trials = self._store.trials.of_exploration(exploration.exploration_id, tenant=tenant)
        known = [
            KnownTrial(candidate=trial.candidate, measurement=trial.measurement)
            for trial in trials
            if trial.measurement is not None
        ]
        return TrainingExploration(
            module_json=self._store.workloads.get(tenant, key.workload_id).module_json,
            target=self._store.targets.get(key.target_id, tenant=tenant),
            abi=key.abi,
            known=tuple(known[-MAX_TRIALS:]),
        )
