"""Created tokens."""

from pydantic import BaseModel

from tunefarm_schemas.token import Token


class NewToken(BaseModel):
    """A token with its text, which is shown once. A repeated request returns null instead of the text."""

    token: Token
    text: str | None
