"""Releases on the device: the folders, which one is current, which one was before."""

from pathlib import Path

from tunefarm_edge.state.content_store import is_intact
from tunefarm_edge.state.edge_root import CURRENT, PREVIOUS, EdgeRoot
from tunefarm_schemas.edge.release import Release, ReleaseFile, ReleaseVariant
from tunefarm_schemas.frozen import digest


def folder_name(release: Release, variant: ReleaseVariant) -> str:
    """The folder of a variant: the release's name and the first digits of a digest of all its files.

    A release may gain a better variant later, so the name alone would not tell what a folder holds. ``+`` occurs in no
    name of a release.
    """
    contents = "\n".join(sorted(f"{file.path} {file.digest}" for file in files_of(variant)))
    return f"{release.name}+{digest(contents)[:12]}"


def release_name(folder: str) -> str:
    """The release's name in the name of its folder."""
    return folder.partition("+")[0]


def files_of(variant: ReleaseVariant) -> tuple[ReleaseFile, ...]:
    """All files of a variant, the manifest last: it is small and never missing a patch."""
    return (*variant.files, variant.manifest)


class InstalledReleases:
    """Folders below ``releases`` and the two symbolic links beside them."""

    def __init__(self, root: EdgeRoot) -> None:
        self._root = root

    def path(self, folder: str) -> Path:
        """The folder of a release."""
        return self._root.releases / folder

    def has(self, folder: str) -> bool:
        """Whether the release is installed. Folders appear by a rename, so they are whole."""
        return self.path(folder).is_dir()

    @property
    def current(self) -> str | None:
        """The folder of the release that runs; None before the first, and after a stop."""
        return self._pointed(CURRENT)

    @property
    def previous(self) -> str | None:
        """The folder of the release that ran before, if it is still there."""
        folder = self._pointed(PREVIOUS)
        return folder if folder and self.has(folder) else None

    def _pointed(self, link: str) -> str | None:
        path = self._root.path / link
        return path.readlink().name if path.is_symlink() else None

    def stage(self, folder: str, variant: ReleaseVariant) -> Path:
        """Make the folder of a release in the staging folder, of files that are in the store."""
        disk, staged = self._root.disk, self._root.staging / folder
        disk.remove_entries(self._root.staging)
        disk.make_folder(staged)
        folders = {staged}
        for file in files_of(variant):
            target = staged / file.path
            disk.make_folder(target.parent)
            folders.update(staged / each for each in Path(file.path).parents)
            disk.link(self._root.files / file.digest, target)
        for each in sorted(folders, reverse=True):
            disk.sync_folder(each)
        return staged

    def admit(self, folder: str) -> None:
        """Make a staged folder a release."""
        self._root.disk.rename(self._root.staging / folder, self.path(folder))

    def switch(self, folder: str) -> None:
        """Let ``current`` point to a release, atomically."""
        self._root.disk.point(self._root.path / CURRENT, f"releases/{folder}")

    def remember(self, folder: str | None) -> None:
        """Let ``previous`` point to a release."""
        if folder:
            self._root.disk.point(self._root.path / PREVIOUS, f"releases/{folder}")

    def halt(self) -> None:
        """Run no release: models end with their next run."""
        self._root.disk.remove(self._root.path / CURRENT)
        self._root.disk.sync_folder(self._root.path)

    def remove(self, folder: str) -> None:
        """Remove a release. It leaves ``releases`` by a rename, so no half of it is ever taken for a whole."""
        self._root.disk.rename(self.path(folder), self._root.staging / f"{folder}.removed")
        self._root.disk.remove_entries(self._root.staging)

    def prune(self, keep_versions: int) -> None:
        """Remove all but the current and the previous release and the newest others.

        Args:
            keep_versions: how many releases stay in all, at least the two.
        """
        kept = {each for each in (self.current, self.previous) if each}
        others = [path for path in self._root.releases.iterdir() if path.name not in kept]
        others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        for path in others[max(keep_versions - len(kept), 0) :]:
            self.remove(path.name)

    def replace_file(self, folder: str, file: ReleaseFile) -> None:
        """Let a file of a release be that of the store. Programs that have mapped the old one keep it."""
        disk, fresh, target = self._root.disk, self._root.staging / file.digest, self.path(folder) / file.path
        disk.make_folder(target.parent)
        disk.remove(fresh)
        disk.link(self._root.files / file.digest, fresh)
        disk.rename(fresh, target)

    def damaged(self, folder: str, variant: ReleaseVariant) -> list[ReleaseFile]:
        """The files of a release that are missing or do not have their digests."""
        found = self.path(folder)
        return [file for file in files_of(variant) if not is_intact(found / file.path, file.digest)]
