"""Input examples: blobs named by the specs in jobs and manifests."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

from sqlalchemy import Connection, select, union_all

from tunefarm_schemas.tuning.input_spec import InputExample, InputSpec
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.store_error import NotFound
from tunefarm_services.store.tables import ArtifactTable, JobTable

# Few jobs have examples, so their specs are searched for the word instead of being indexed.
_EXAMPLE_KEY: Final = '"example_digest":"'
_HOLDERS: Final = union_all(
    select(JobTable.spec).where(JobTable.spec.contains(_EXAMPLE_KEY)),
    select(ArtifactTable.manifest).where(ArtifactTable.manifest.contains(_EXAMPLE_KEY)),
)


class InputExampleRepository(Repository):
    """Reads examples. ``JobRepository.create`` writes them."""

    def get(self, specs: Sequence[InputSpec]) -> tuple[InputExample, ...]:
        """Return the examples named by ``specs``, which come from a job or a manifest of this store.

        Raises BlobMissing, BlobDamaged.
        """
        return tuple(InputExample(content=self._blobs.get(wanted)) for wanted in named_examples(specs))


def named_examples(specs: Sequence[InputSpec]) -> list[str]:
    """The digests that ``specs`` name, each once."""
    return list(dict.fromkeys(spec.example_digest for spec in specs if spec.example_digest is not None))


def require_examples(specs: Sequence[InputSpec], examples: Sequence[InputExample]) -> None:
    """Raise NotFound unless every example is supplied: a digest alone must not grant access to a blob."""
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
