"""Keys for a new repository, all in one folder."""

from dataclasses import dataclass
from pathlib import Path

from tunefarm.release.keys import make_key
from tunefarm_schemas.bad_input import BadInput


@dataclass(frozen=True)
class NewKeys:
    """The files of new keys."""

    root: str
    targets: str
    online: str
    channel: str | None


def make_keys(folder: Path, repository: Path, channel: str | None, passphrase: bytes | None) -> NewKeys:
    """Make a key for each role of a repository, and one for a channel. They are to be separated later.

    Raises:
        BadInput: the folder is the repository or within it, which is served, or has a key of one of these names.
    """
    if folder.resolve().is_relative_to(repository.resolve()):
        raise BadInput("new_keys", f"{folder} is within the repository, which is served.", "Give another folder.")
    names = ["root", "targets", "online", *([] if channel is None else [channel])]
    if len(set(names)) != len(names):
        raise BadInput("channel", f"{channel} is the name of a role.", "Choose another name, or make keys one by one.")
    files = {name: folder / f"{name}.pem" for name in names}
    for path in files.values():
        if path.exists():
            raise BadInput("new_keys", f"{path} exists.", "Give a new folder; keys are never replaced.")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput("new_keys", f"{folder} cannot be made ({error.strerror}).", "Give another folder.") from error
    for path in files.values():
        make_key(path, passphrase)
    places = {name: str(path) for name, path in files.items()}
    return NewKeys(places["root"], places["targets"], places["online"], None if channel is None else places[channel])
