"""Where measurements can be compared."""

from dataclasses import dataclass
from typing import Self

from tunefarm_services.tuner.farm.ports import Farm


@dataclass(frozen=True, order=True)
class Place:
    """A device class and the code generator of those who serve it."""

    device_class_id: str
    code_generator: str

    @classmethod
    def of(cls, farm: Farm) -> Self:
        """Where a farm measures."""
        return cls(farm.device.device_class.device_class_id, farm.code_generator)
