"""An order in the form that Celery reads from a list in Redis. Plain values: nothing here opens a connection."""

from collections.abc import Mapping
from typing import Final
from uuid import uuid4

from tunefarm_schemas.frozen import Frozen, canonical_json

# Celery's message protocol, version 2, in the envelope that kombu puts into Redis. Built here, because Celery's own
# code takes five times the processor time and one round trip per message.
_HEADERS: Final[Mapping[str, object]] = {
    "lang": "py",
    "parent_id": None,
    "group": None,
    "eta": None,
    "expires": None,
    "retries": 0,
    "timelimit": [None, None],
    "argsrepr": "",
    "kwargsrepr": "",
    "ignore_result": True,
}
_NO_CALLBACKS: Final = '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}'


def celery_envelope(queue: str, name: str, message: Frozen) -> str:
    """Wrap ``message`` as the only argument of Celery's task ``name``, for the list of ``queue``."""
    task_id = uuid4().hex
    # The message is JSON already: insert it without parsing it again.
    body = f"[[{message.model_dump_json()}],{{}},{_NO_CALLBACKS}]"
    return canonical_json(
        {
            "body": body,
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": {**_HEADERS, "task": name, "id": task_id, "root_id": task_id},
            "properties": {
                "correlation_id": task_id,
                "delivery_mode": 2,
                "delivery_info": {"exchange": "", "routing_key": queue},
                "delivery_tag": task_id,
                "priority": 0,
            },
        }
    )
