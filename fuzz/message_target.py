"""Messages between tuners and lanes: invalid ones are dropped with a typed refusal, never an exception."""

import json
import random
from pathlib import Path
from typing import Any, Final

from fuzz.mutation import mutated_bytes, mutated_json
from tunefarm_schemas.farm.broker import Broker
from tunefarm_schemas.farm.farm_message import (
    COMPARE,
    EXPORT,
    MEASURE,
    CompareMessage,
    ExportMessage,
    MeasureMessage,
    reply,
)
from tunefarm_schemas.farm.order_link import parsed_reply
from tunefarm_schemas.frozen import Frozen
from tunefarm_services.tuner.farm import lane_registrar
from tunefarm_workers.broker.blobs import Blobs
from tunefarm_workers.broker.celery_intake import CeleryIntake, Taker
from tunefarm_workers.broker.lane_heartbeat import LaneVoice
from tunefarm_workers.broker.task_blob import TaskNotThere, fetched_task

EXAMPLES: Final = Path(__file__).parents[1] / "tests" / "goldens" / "v1"
DOORS: Final = {
    "order": ("MeasureMessage", "CompareMessage", "ExportMessage"),
    "reply": (
        *("Measured", "Holding", "Returned", "TaskMissing", "Suspected", "Unverifiable"),
        "Compared",
        "ExportEnded",
    ),
    "heartbeat": ("Heartbeat",),
    "answer": ("LaneAnswer",),
    "cancellation": ("Cancellation",),
    "task": ("MeasureTask",),
}
KINDS: Final[dict[str, type[Frozen]]] = {MEASURE: MeasureMessage, COMPARE: CompareMessage, EXPORT: ExportMessage}


class _OneBlob(Blobs):
    def __init__(self, content: bytes) -> None:
        self._content = content

    def get(self, _blob_digest: str) -> bytes:
        return self._content

    def put(self, _content: bytes) -> str:
        """Nothing is kept."""
        return ""


class _Deaf:
    def cancel(self, _cancellation: object) -> None:
        """Nothing is canceled here."""


class _Message:
    def __init__(self, body: bytes) -> None:
        self.body = body


class MessageTarget:
    """Every decoder of broker messages. No broker is needed."""

    def __init__(self) -> None:
        broker = Broker.at("redis://127.0.0.1:1/0")
        takers = {task: Taker(kind, lambda _order: None) for task, kind in KINDS.items()}
        intake = CeleryIntake(broker, "fuzz", takers, "fuzz")
        self._orders = [intake._app.tasks[task].Strategy() for task in KINDS]  # noqa: SLF001 - the real handlers
        self._voice: Any = object.__new__(LaneVoice)
        deaf = {"_broker": broker, "_server": _Deaf(), "_lane_id": "lane", "_on_answer": lambda _answer: None}
        vars(self._voice).update(deaf)

    def make(self, chance: random.Random) -> str:
        """Create a decoder's name and a changed example of its input, each byte as a character."""
        door = chance.choice(list(DOORS))
        text = (EXAMPLES / f"{chance.choice(DOORS[door])}.json").read_text(encoding="utf-8")
        if door == "order":
            text = f"[[{text}], {{}}, {{}}]"
        if chance.random() < 0.8:
            text = mutated_json(text, chance)
        content = text.encode(errors="surrogatepass")
        if chance.random() < 0.3:
            content = mutated_bytes(content, chance)
        return json.dumps({"door": door, "content": content.decode("latin-1")})

    def check(self, case: str) -> str | None:
        """Pass it to its decoder."""
        given = json.loads(case)
        content = given["content"].encode("latin-1")
        try:
            self._decode(given["door"], content)
        except Exception as error:  # noqa: BLE001 - any exception is what is looked for
            return f"{given['door']}: {type(error).__name__}: {str(error)[:300]}"
        return None

    def close(self) -> None:
        """Nothing was started."""

    def _decode(self, door: str, content: bytes) -> None:
        cancellations, answers = self._voice.channels()
        match door:
            case "order":
                for handle in self._orders:
                    handle(_Message(content))
            case "reply":
                parsed_reply({b"m": content}, reply)
            case "heartbeat":
                lane_registrar._parsed(content)  # noqa: SLF001
            case "answer":
                self._voice.hear(answers, content)
            case "cancellation":
                self._voice.hear(cancellations, content)
            case _:
                try:
                    fetched_task(_OneBlob(content), "0" * 64, "exploration")
                except TaskNotThere:
                    return
