"""Input examples stored as files beside an artifact, named by their digests."""

from collections.abc import Sequence
from pathlib import Path

from tunefarm_schemas.tuning.input_spec import InputExample, InputSpec, example_name


def read_examples(folder: Path, specs: Sequence[InputSpec]) -> tuple[InputExample, ...]:
    """Return the examples named by ``specs`` that ``folder`` holds unchanged."""
    found = []
    for wanted in dict.fromkeys(spec.example_digest for spec in specs if spec.example_digest is not None):
        try:
            example = InputExample(content=(folder / example_name(wanted)).read_bytes())
        except OSError:
            continue
        if example.example_digest == wanted:
            found.append(example)
    return tuple(found)
