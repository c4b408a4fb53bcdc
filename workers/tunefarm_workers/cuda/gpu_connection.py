"""How a child reaches a GPU."""

from tunefarm_schemas.frozen import Frozen


class GpuConnection(Frozen):
    """A device of this host. ``device_type`` is TVM's name."""

    device_type: str
    index: int
