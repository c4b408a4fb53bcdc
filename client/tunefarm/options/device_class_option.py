"""``--device-class``: a device class by its id or a prefix of it, as shown by ``devices list``."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.views.device import DeviceView

CLASS_ID_LENGTH: Final = 64


def device_class_of_text(text: str, known: Iterable[str]) -> str:
    """The id of the known class that begins with ``text``; ``text`` itself if none does.

    Raises:
        BadInput: several begin with it.
    """
    found = {each for each in known if text and each.startswith(text)}
    if len(found) > 1:
        fix = "Give more characters; see: tunefarm devices list --json"
        raise BadInput("device_class_id", f"the ids of {len(found)} classes begin with {text!r}.", fix)
    return found.pop() if found else text


def class_of_devices(text: str | None, listed: Callable[[], Sequence[DeviceView]]) -> str | None:
    """The same for the devices of a service, ``listed`` only if ``text`` is not a whole id. None stays None."""
    if text is None or len(text) >= CLASS_ID_LENGTH:
        return text
    return device_class_of_text(text, [device.device_class_id for device in listed()])
