"""Examples of inputs: blobs that the specs in jobs and manifests name."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

from sqlalchemy import Connection, select, union_all

from tunefarm_schemas.tuning.input_spec import InputExample, InputSpec
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.store_error import NotFound
from tunefarm_services.store.tables import ArtifactTable, JobTable

# Few jobs bring examples, so their specs are searched for the word instead of being indexed.
_MARK: Final = '"example_digest":"'
_HOLDERS: Final = union_all(
    select(JobTable.spec).where(JobTable.spec.contains(_MARK)),
    select(ArtifactTable.manifest).where(ArtifactTable.manifest.contains(_MARK)),
)


class InputExampleRepository(Repository):
    """Reading examples. ``JobRepository.create`` writes them."""

    def get(self, specs: Sequence[InputSpec]) -> tuple[InputExample, ...]:
        """The examples that ``specs``, taken from a job or a manifest of this store, name.

        Raises BlobMissing, BlobDamaged.
        """
        return tuple(InputExample(content=self._blobs.get(wanted)) for wanted in named_examples(specs))


def named_examples(specs: Sequence[InputSpec]) -> list[str]:
    """The digests that ``specs`` name, each once."""
    return list(dict.fromkeys(spec.example_digest for spec in specs if spec.example_digest is not None))


def require_given(specs: Sequence[InputSpec], examples: Sequence[InputExample]) -> None:
    """Raise NotFound unless every example comes along: a digest alone must not open somebody else's blob."""
    given = {example.example_digest for example in examples}
    for wanted in named_examples(specs):
        if wanted not in given:
            raise NotFound("input example", wanted)


def example_references(connection: Connection) -> set[str]:
    """Every example that a job or a manifest of any tenant names."""
    return {
        example_digest
        for document in connection.execute(_HOLDERS).scalars()
        for spec in _specs(document)
        if (example_digest := spec.get("example_digest")) is not None
    }


def _specs(document: str) -> Iterator[dict[str, str | None]]:
    yield from json.loads(document).get("input_specs", ())
