"""Where releases come from: a folder, such as a USB stick, or a service."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

from tuf.api.exceptions import DownloadHTTPError
from tuf.ngclient.fetcher import FetcherInterface

from tunefarm_edge.refusal import Refused
from tunefarm_edge.state.content_store import PIECE_BYTES


class ReleaseSource(Protocol):
    """A repository."""

    @property
    def base(self) -> str:
        """What addresses of metadata and targets begin with; ends with a slash."""

    @property
    def fetcher(self) -> FetcherInterface:
        """Gets metadata and targets for TUF."""

    def content(self, digest: str, offset: int) -> Iterator[bytes]:
        """The bytes of a file from ``offset`` on.

        Raises:
            Refused: the source cannot be reached, or does not have the file.
        """

    def abandon(self) -> None:
        """End downloads that were not read to their end."""


class FolderSource(FetcherInterface):
    """A repository in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    @property
    def base(self) -> str:
        """Nothing: addresses are paths."""
        return "/"

    @property
    def fetcher(self) -> FetcherInterface:
        """The folder itself."""
        return self

    def _fetch(self, url: str) -> Iterator[bytes]:
        path = self._inside(unquote(url).lstrip("/"))
        if path is None:
            raise DownloadHTTPError(f"{self._folder}{unquote(url)} is missing", 404)
        return _pieces(path, 0)

    def content(self, digest: str, offset: int) -> Iterator[bytes]:
        """The bytes of a file from ``offset`` on."""
        path = self._inside(f"files/{digest}")
        if path is None:
            problem = f"{self._folder}/files/{digest} is missing."
            raise Refused("unreachable", problem, "Copy the whole repository to the folder.")
        return _pieces(path, offset)

    def abandon(self) -> None:
        """Nothing: files are closed with the last reference to them."""

    def _inside(self, name: str) -> Path | None:
        """A plain file of the folder. A link of a medium must not make the agent read a file of the device."""
        path = (self._folder / name).resolve()
        return path if path.is_relative_to(self._folder) and path.is_file() else None


def _pieces(path: Path, offset: int) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            while piece := file.read(PIECE_BYTES):
                yield piece
    except OSError as error:
        raise Refused("unreachable", f"{path} cannot be read ({error}).", "Use another medium.") from error
