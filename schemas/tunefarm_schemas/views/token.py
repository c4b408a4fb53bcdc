"""Tokens as they are made."""

from pydantic import BaseModel

from tunefarm_schemas.token import Token


class NewToken(BaseModel):
    """A token with its text, which is told once. A repeated request gets null instead of the text."""

    token: Token
    text: str | None
