"""Views of targets."""

import json
from typing import Any

from pydantic import BaseModel, ConfigDict

from tunefarm_schemas.tuning.target import Target


class TargetView(BaseModel):
    """A target with its id."""

    model_config = ConfigDict(frozen=True)

    target_id: str
    kind: str
    num_cores: int
    canonical: str

    @classmethod
    def of(cls, target: Target) -> "TargetView":
        """The view of ``target``."""
        return cls(target_id=target.target_id, kind=target.kind, num_cores=target.num_cores, canonical=target.canonical)

    def attributes(self) -> dict[str, Any]:
        """The target in the form that TVM accepts."""
        value: dict[str, Any] = json.loads(self.canonical)
        return value


class CheckedTarget(TargetView):
    """A target that TVM accepts. ``notes`` list the attributes that were filled in."""

    notes: tuple[str, ...]


class TargetPreset(BaseModel):
    """A target with a short name. ``target`` is null if the service derives it from a host."""

    model_config = ConfigDict(frozen=True)

    name: str
    description: str
    target: dict[str, object] | None


class PresetList(BaseModel):
    """Every preset."""

    presets: tuple[TargetPreset, ...]
