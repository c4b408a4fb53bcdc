"""Beginning uploads."""

from pydantic import Field

from tunefarm_services.api.bodies.body import DIGEST_EXAMPLE, Body, with_examples


class UploadBody(Body):
    """Content of a declared size, to be sent in pieces."""

    model_config = with_examples({"size_bytes": 5_242_880, "digest": DIGEST_EXAMPLE})

    size_bytes: int = Field(gt=0, le=1 << 40)
    digest: str | None = Field(
        default=None, pattern="^[0-9a-f]{64}$", description="SHA-256 of the whole content; checked before it is used."
    )
