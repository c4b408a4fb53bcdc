"""``--label NAME=VALUE``, which labels jobs and selects them."""

from collections.abc import Iterable

from tunefarm_schemas.bad_input import BadInput


def labels_of_texts(texts: Iterable[str]) -> dict[str, str]:
    """Parse texts of the form ``NAME=VALUE``.

    Raises:
        BadInput: a text has no name or no equals sign.
    """
    labels = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise BadInput("--label", f"{text!r} is not a label.", "Write it as NAME=VALUE.")
        labels[name] = value
    return labels
