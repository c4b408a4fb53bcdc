"""Celery's part of a worker: receives tasks from the pool's queue and passes them to the lane."""

import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog
from celery import Celery
from celery.worker import WorkController
from celery.worker import state as celery_state
from kombu import Exchange, Queue
from pydantic import TypeAdapter, ValidationError

from tunefarm_schemas.farm.broker import Broker
from tunefarm_schemas.frozen import Frozen

Message = TypeVar("Message", bound=Frozen)

log = structlog.get_logger()


@dataclass(frozen=True)
class Taker(Generic[Message]):
    """Receives the orders of one Celery task on Celery's thread; ``take`` blocks while the lane is full."""

    kind: type[Message]
    take: Callable[[Message], None]


class CeleryIntake:
    """A Celery worker with the solo pool in this process, for one queue. At most one per process."""

    def __init__(self, broker: Broker, queue: str, takers: Mapping[str, Taker[Any]], name: str) -> None:
        """``takers`` maps names of Celery tasks to what receives their orders."""
        # Celery logs each task twice, which costs more than passing it on.
        logging.getLogger("celery").setLevel(logging.WARNING)
        self._queue = queue
        self._app = Celery("tunefarm")
        # Tuners detect lost orders and send them again, so acknowledgements would only cost two round trips a task.
        without_acknowledgement = Queue(queue, Exchange(queue), routing_key=queue, no_ack=True)
        self._app.conf.update(broker.celery_configuration(), task_queues=[without_acknowledgement])
        for task, taker in takers.items():
            self._add(task, taker)
        self._worker: Any = None
        self._name = name
        self._lock = threading.Lock()
        self._is_open = True

    def run(self) -> None:
        """Receive tasks until ``stop``, on the main thread. Reconnects without limit."""
        # Celery's stop flag is global to the process: ``stop`` may precede ``run``.
        if celery_state.should_stop is not None:
            return
        self._worker = WorkController(
            app=self._app,
            pool="solo",
            concurrency=1,
            queues=[self._queue],
            hostname=f"lane@{self._name}",
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            task_events=False,
            loglevel="WARNING",
        )
        self._worker.start()

    def stop(self) -> None:
        """Stop receiving, and make ``run`` return. Safe in signal handlers and from threads."""
        celery_state.should_stop = os.EX_OK

    def set_open(self, is_open: bool) -> None:
        """Start or stop receiving tasks, asynchronously on Celery's thread."""
        with self._lock:
            consumer = getattr(self._worker, "consumer", None)
            if is_open == self._is_open or consumer is None or getattr(consumer, "task_consumer", None) is None:
                return
            self._is_open = is_open
            change = consumer.add_task_queue if is_open else consumer.cancel_task_queue
            consumer.call_soon(change, self._queue)

    def _add(self, name: str, taker: Taker[Message]) -> None:
        # The body of a message in Celery's protocol 2: arguments, keyword arguments, callbacks.
        body: TypeAdapter[tuple[tuple[Message], dict[str, object], dict[str, object]]] = TypeAdapter(
            tuple[tuple[taker.kind], dict[str, object], dict[str, object]]  # type: ignore[name-defined]
        )

        def handle(message: Any, *_: object) -> None:
            try:
                (order,), _keywords, _callbacks = body.validate_json(message.body)
            except ValidationError as error:
                log.error("an order is not understood, and dropped", task=name, reason=str(error)[:500])
                return
            taker.take(order)

        # Celery's default strategy creates a request, traces it and passes it to a pool, which costs as much as all
        # other handling of an order in a worker.
        self._app.task(name=name, shared=False, Strategy=staticmethod(lambda *_: handle))(handle)
