"""The farm of a search child, behind its pipe."""

from tests.workers.workloads import dispatch
from tunefarm_sandbox.channel.channel import Channel
from tunefarm_schemas.tuning.measurement import Measurement, Stages, Timing
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_services.tuner.search.search_child import PipeFarm
from tunefarm_services.tuner.search.search_messages import MeasuredMessage


def test_repeated_measurement_frees_one_place() -> None:
    supervisor, far = Channel.pair()
    farm = PipeFarm(Channel(far), 4)
    sent = [dispatch("exploration", Trace(text="[[],[]]"), number) for number in range(3)]
    farm.submit([each.candidate for each in sent])
    assert farm.room() == 1
    timed = Measurement.answering(sent[0], Timing(latency_s=1e-3, samples_s=(1e-3,)), Stages())
    for attempt in (1, 2):
        again = timed.model_copy(update={"attempt": attempt})
        supervisor.send(MeasuredMessage(measurements=(again,)).model_dump_json().encode())
        assert len(farm.collect(10.0)) == 1
        assert farm.room() == 2
