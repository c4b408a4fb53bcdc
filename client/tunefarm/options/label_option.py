"""``--label NAME=VALUE``, with which jobs are made and found again."""

from collections.abc import Iterable

from tunefarm_schemas.bad_input import BadInput


def labels_of_texts(texts: Iterable[str]) -> dict[str, str]:
    """Read every ``NAME=VALUE``.

    Raises:
        BadInput: one of them has no name or no equals sign.
    """
    labels = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise BadInput("--label", f"{text!r} is not a label.", "Write it as NAME=VALUE.")
        labels[name] = value
    return labels
