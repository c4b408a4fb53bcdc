"""Publications of releases."""

from typing import Annotated

from pydantic import Base64Bytes, Field, StringConstraints

from tunefarm_services.api.bodies.body import DIGEST_EXAMPLE, Body, with_examples

FileName = Annotated[str, StringConstraints(max_length=200, pattern=r"^[A-Za-z0-9._-]+$")]
Content = Annotated[Base64Bytes, Field(max_length=8 << 20)]


class NamedFile(Body):
    """A file of a bundle that is to be published."""

    digest: str = Field(pattern="^[0-9a-f]{64}$")
    size_bytes: int = Field(ge=0, le=1 << 40)


class NamedFilesBody(Body):
    """The files of a publication."""

    model_config = with_examples({"files": [{"digest": DIGEST_EXAMPLE, "size_bytes": 86_016}]})

    files: tuple[NamedFile, ...] = Field(max_length=2000)


class PublicationBody(Body):
    """New metadata, by file name such as ``5.snapshot.json``, and new targets below ``channels/``; in base64."""

    model_config = with_examples({"metadata": {"timestamp.json": "e30="}, "targets": {}})

    metadata: dict[FileName, Content] = Field(max_length=1000)
    targets: dict[FileName, Content] = Field(default_factory=dict, max_length=1000)
