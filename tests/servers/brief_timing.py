"""Times models and verified libraries briefly, in the process that imports this and in its forks.

Tests of commands ask whether there is a time, not how sure it is: tests/tuner/verify asks that.
"""

from tunefarm.model.timing import model_times
from tunefarm_services.tuner.verify import care, verifier

model_times._SECONDS_EACH = 0.02  # type: ignore[misc]
care.FULL = verifier.FULL = care.Care(processes=2, accepted=2)  # type: ignore[misc]
verifier.MORE_PROCESSES = 2
