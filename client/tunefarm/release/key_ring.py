"""The keys at hand: which signs for which role, and where it lies."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from securesystemslib.exceptions import UnsupportedLibraryError
from securesystemslib.signer import Key, Signer
from tuf.api.exceptions import RepositoryError, UnsignedMetadataError
from tuf.api.metadata import Metadata, Root, Targets

from tunefarm.release.keys import HSM, public_key_of, signer_of
from tunefarm.release.release_folder import FolderWrite, ReleaseFolder
from tunefarm_schemas.bad_input import BadInput

KEY_PLACES: Final = "keys.json"
"""Beside ``metadata/``: where each key lies, and no key. It is neither pushed nor exported."""


@dataclass
class KeyRing:
    """Signers by key id. Those given are preferred to those that ``keys.json`` says the place of.

    Attributes:
        signers: those loaded.
        places: of keys, by key id: an absolute path or an ``hsm:`` URI.
    """

    passphrase: bytes | None = None
    signers: dict[str, Signer] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: ReleaseFolder, given: Iterable[str] = (), passphrase: bytes | None = None) -> "KeyRing":
        """The keys whose places the folder knows, and those ``given``. Raises BadInput."""
        places = folder.path / KEY_PLACES
        known = json.loads(places.read_bytes()) if places.is_file() else {}
        ring = cls(passphrase, {}, dict(known))
        for reference in given:
            ring.add(reference)
        return ring

    def add(self, reference: str) -> Key:
        """Load a key, and note its place; returns the public key. Raises BadInput."""
        signer = signer_of(reference, passphrase=self.passphrase)
        key = public_key_of(signer)
        self.signers[key.keyid] = signer
        self.places[key.keyid] = reference if reference.startswith(HSM) else str(Path(reference).absolute())
        return key

    def places_file(self) -> FolderWrite:
        """What is to be written to the folder."""
        return FolderWrite(KEY_PLACES, json.dumps(self.places, indent=2, sort_keys=True).encode() + b"\n")

    def signers_of(self, role: str, keys: Mapping[str, Key], threshold: int) -> list[Signer]:
        """Signers for as many of a role's ``keys`` as are at hand.

        Raises:
            BadInput: they are fewer than ``threshold``.
        """
        found = [signer for keyid, key in keys.items() if (signer := self._signer(keyid, key)) is not None]
        if len(found) < threshold:
            missing = ", ".join(sorted(set(keys) - {public_key_of(signer).keyid for signer in found}))
            problem = f"The role {role} needs {threshold} of {len(keys)} keys; {len(found)} are available."
            raise BadInput("key", problem, f"Give --key FILE for: {missing}.")
        return found

    def has(self, keys: Mapping[str, Key], threshold: int) -> bool:
        """Whether enough of ``keys`` are at hand."""
        return sum(self._signer(keyid, key) is not None for keyid, key in keys.items()) >= threshold

    def _signer(self, keyid: str, key: Key) -> Signer | None:
        if keyid in self.signers:
            return self.signers[keyid]
        place = self.places.get(keyid)
        if place is None or not (place.startswith(HSM) or Path(place).is_file()):
            return None
        try:
            signer = signer_of(place, passphrase=self.passphrase, public_key=key)
        except UnsupportedLibraryError:
            return None
        if public_key_of(signer).keyid != keyid:
            return None
        self.signers[keyid] = signer
        return signer


def role_keys(delegator: Root | Targets, role: str) -> tuple[dict[str, Key], int]:
    """The keys of a role, by key id, and its threshold. Raises BadInput."""
    try:
        found = delegator.get_delegated_role(role)
    except ValueError as error:
        raise BadInput("role", f"There is no role {role!r}.", "See: tunefarm release status") from error
    return {keyid: delegator.get_key(keyid) for keyid in found.keyids}, found.threshold


def sign_all(metadata: Metadata[Any], signers: Sequence[Signer]) -> bytes:
    """Replace all signatures; returns the file. Raises BadInput."""
    metadata.signatures.clear()
    unique = {public_key_of(signer).keyid: signer for signer in signers}
    for keyid in sorted(unique):
        try:
            metadata.sign(unique[keyid], append=True)
        except (UnsignedMetadataError, RepositoryError) as error:
            raise BadInput("key", f"{keyid} cannot sign: {error}.", "Check the key or its token.") from error
    return metadata.to_bytes()
