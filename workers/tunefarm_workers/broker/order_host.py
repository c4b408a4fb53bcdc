"""What a worker process needs of the object that carries out its orders."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tunefarm_schemas.farm.farm_message import Cancellation
from tunefarm_schemas.farm.processor import Processor
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.device import Device
from tunefarm_workers.broker.celery_intake import Taker

Send = Callable[[str, Frozen], None]
"""Takes a farm's id and a message to it, and returns at once."""


class OrderHost(Protocol):
    """Takes orders, has them carried out, and replies. Its methods are called from several threads."""

    @property
    def room(self) -> int:
        """How many orders it has carried out at once."""

    @property
    def crash(self) -> Exception | None:
        """What ended it, once it is of no use any more."""

    @property
    def in_flight(self) -> int:
        """How many orders are here."""

    def takers(self) -> Mapping[str, Taker[Any]]:
        """Who takes which orders, on Celery's thread."""

    def start(self, on_crash: Callable[[], None]) -> None:
        """Begin; ``on_crash`` hears when it is of no use any more."""

    def cancel(self, cancellation: Cancellation) -> None:
        """End what a farm does not want any more."""

    def take_work(self, wanted: bool) -> None:
        """Whether orders may begin, told once a second."""

    def farms(self) -> Collection[str]:
        """The farms that have orders here."""

    def orders_of(self, farm_id: str) -> tuple[str, ...]:
        """The ids of a farm's orders that are here."""

    def tell_holding(self, instance: str, known_farms: Collection[str]) -> set[str]:
        """Tell each farm what is here of it, those of ``known_farms`` too that have nothing here; give who has."""

    def look_for_trouble(self) -> str:
        """Why no work can be taken now; empty when it can."""

    def settle(self, grace_s: float) -> None:
        """Finish what has begun, for up to ``grace_s`` seconds, and give the rest back."""

    def close(self) -> None:
        """End its threads."""


@dataclass(frozen=True)
class HostedLane:
    """A lane that is ready to take orders from ``queue``; ``serves`` says for people what it is for."""

    host: OrderHost
    queue: str
    serves: str
    device: Device
    code_generator: str
    processor: Processor
