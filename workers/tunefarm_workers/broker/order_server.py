"""The interface between a worker process and the object that executes its orders."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tunefarm_schemas.farm.farm_message import Cancellation
from tunefarm_schemas.farm.lane import ReferenceCheck
from tunefarm_schemas.farm.processor import Processor
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.device import Device
from tunefarm_workers.broker.celery_intake import Taker

Send = Callable[[str, Frozen], None]
"""Takes a farm's id and a message to it, and does not block."""


class OrderServer(Protocol):
    """Accepts orders, executes them, and replies. Thread-safe."""

    @property
    def room(self) -> int:
        """How many orders it executes at once."""

    @property
    def crash(self) -> Exception | None:
        """The error that made it unusable, if any."""

    @property
    def in_flight(self) -> int:
        """How many orders it holds."""

    def takers(self) -> Mapping[str, Taker[Any]]:
        """Return the receivers of orders, called on Celery's thread."""

    def start(self, on_crash: Callable[[], None]) -> None:
        """Start; ``on_crash`` is called when it becomes unusable."""

    def cancel(self, cancellation: Cancellation) -> None:
        """End the orders that a farm canceled."""

    def take_work(self, wanted: bool) -> None:
        """Allow or forbid orders to begin; called once a second."""

    def farms(self) -> Collection[str]:
        """Return the farms that have orders here."""

    def orders_of(self, farm_id: str) -> tuple[str, ...]:
        """Return the ids of a farm's orders here."""

    def tell_holding(self, instance: str, known_farms: Collection[str]) -> set[str]:
        """Report its orders here to each farm, ``known_farms`` included; return the farms that have any."""

    def check_health(self) -> str:
        """Return why no work can be accepted now; empty if it can."""

    def settle(self, grace_s: float) -> None:
        """Finish started orders within ``grace_s`` seconds, and return the rest."""

    def close(self) -> None:
        """End its threads."""


@dataclass(frozen=True)
class OpenLane:
    """A lane that is ready to receive orders from ``queue``; ``serves`` describes it in logs."""

    server: OrderServer
    queue: str
    serves: str
    device: Device
    code_generator: str
    processor: Processor
    last_check: Callable[[], ReferenceCheck | None] = lambda: None
