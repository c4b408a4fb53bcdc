"""The child that trains a model over several explorations. Like the search child it may import the search library."""

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.model.pooled_model import PooledExploration, pooled_model
from tunefarm_search.ports import KnownTrial
from tunefarm_services.tuner.service.training_messages import Trained, TrainingExploration, TrainingOrder


def main(channel: Channel, payload: bytes, _descriptors: list[int]) -> None:
    """Entry of the child: a ``TrainingOrder`` in, ``Trained`` out."""
    order = TrainingOrder.model_validate_json(payload)
    model = pooled_model([_pooled(exploration) for exploration in order.explorations], order.seed)
    channel.send(Trained(model_json=model).model_dump_json().encode())


def _pooled(exploration: TrainingExploration) -> PooledExploration:
    return PooledExploration(
        module_json=exploration.module_json,
        target=exploration.target,
        abi=exploration.abi,
        space=Space(),
        known=tuple(
            KnownTrial(known.candidate, known.measurement.result, known.measurement.stages.build_s)
            for known in exploration.known
        ),
    )
