"""Times models and verified libraries briefly, and no peaks of devices, in the process that imports this and its forks.

Tests of commands ask whether there is a time, not how sure it is: tests/tuner/verify and tests/workers ask that.
"""

from tests.device_peaks import PEAKS
from tunefarm.model.timing import model_times
from tunefarm_services.tuner.verify import care, verifier
from tunefarm_workers.lane import local_farm

model_times._SECONDS_EACH = 0.02  # type: ignore[misc]
care.FULL = verifier.FULL = care.Care(processes=2, accepted=2)  # type: ignore[misc]
verifier.MORE_PROCESSES = 2
local_farm.with_peaks = lambda device, *_: device.model_copy(update={"peaks": device.peaks or PEAKS})
