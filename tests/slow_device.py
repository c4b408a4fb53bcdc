"""The device of tests, without loading TVM, which takes workers seconds that test something else."""

from tests.device_peaks import PEAKS
from tunefarm_schemas.tuning.device import Device, ReferenceKernelTimes
from tunefarm_workers.device.cpu_identity import cpu_identity
from tunefarm_workers.device.device_identity import device_of


def slow_device() -> Device:
    """This host with times so long that no other load makes it seem slower, and with peaks that need no measuring."""
    times = ReferenceKernelTimes(compute_s=1.0, bandwidth_s=1.0, launch_s=1.0)
    return device_of(cpu_identity(), times, None).model_copy(update={"peaks": PEAKS})
