"""The targets that the service lists by short names: the common ones, and its own host."""

from typing import Final

from tunefarm_schemas.tuning.target_preset import NAMED_TARGETS
from tunefarm_schemas.views.target import TargetPreset

_HOST: Final = TargetPreset(name="host", description="The processor that the service itself runs on.", target=None)
PRESETS: Final = (
    _HOST,
    *(
        TargetPreset(name=named.name, description=named.description, target=dict(named.attributes))
        for named in NAMED_TARGETS
    ),
)
