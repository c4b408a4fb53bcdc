"""Keys: Ed25519 in a file of its owner, or on a token that PKCS#11 reaches."""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlparse

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from securesystemslib.signer import CryptoSigner, HSMSigner, Key, Signer, SSlibKey

from tunefarm.terminal.user_files import read_plain_file
from tunefarm_schemas.bad_input import BadInput

HSM: Final = "hsm:"
PIN_SOURCE: Final = "pin-source"
"""The attribute that PKCS#11 URIs (RFC 7512) have for it."""
HSM_PACKAGE: Final = "pkcs11"
OTHERS: Final = 0o077
_LARGEST_BYTES: Final = 64 << 10


def make_key(path: Path, passphrase: bytes | None = None) -> SSlibKey:
    """Write a new Ed25519 key as PEM (PKCS#8) that only its owner can read; returns the public key.

    Raises:
        BadInput: for ``file``; an existing file is never replaced.
    """
    private = Ed25519PrivateKey.generate()
    encryption: KeySerializationEncryption = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    text = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise BadInput("file", f"{path} exists.", "Choose a new file; keys are never replaced.") from error
    except OSError as error:
        raise BadInput("file", f"{path} cannot be written ({error.strerror}).", "Give another path.") from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    return _public(CryptoSigner(private))


def read_passphrase(path: Path | None) -> bytes | None:
    """The first line of a passphrase file; None without a file. Raises BadInput."""
    if path is None:
        return None
    try:
        lines = read_plain_file(path, limit_bytes=_LARGEST_BYTES).splitlines()
    except OSError as error:
        raise BadInput("passphrase_file", f"{path} cannot be read ({error.strerror}).", "Give a file.") from error
    if not lines or not lines[0]:
        raise BadInput("passphrase_file", f"{path} is empty.", "Write the passphrase as its first line.")
    return lines[0]


def signer_of(reference: str, *, passphrase: bytes | None = None, public_key: Key | None = None) -> Signer:
    """What signs with the key at ``reference``, the path of a PEM file or an ``hsm:`` URI.

    Args:
        reference: ``hsm:2?label=YubiKey&pin-source=FILE`` means the key with the id 2 on the token with that label, and
            the file whose first line is its PIN.
        passphrase: of an encrypted file; for a token without ``pin-source``, its PIN.
        public_key: of a token, if known; otherwise the token is asked for it.

    Raises:
        BadInput: for ``key``.
    """
    if reference.startswith(HSM):
        return _token_signer(reference, passphrase, public_key)
    path = Path(reference)
    text = _private_text(path)
    try:
        private = load_pem_private_key(text, passphrase)
    except TypeError as error:
        raise _passphrase_problem(path, passphrase) from error
    except ValueError as error:
        raise BadInput("key", f"{path} cannot be decrypted or is not PEM.", "Check key and passphrase.") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise BadInput("key", f"{path} is not an Ed25519 key.", "Make one: tunefarm release key new FILE")
    return CryptoSigner(private)


def public_key_of(signer: Signer) -> SSlibKey:
    """The public half of a signer's key."""
    return _public(signer)


def _public(signer: Signer) -> SSlibKey:
    key = signer.public_key
    assert isinstance(key, SSlibKey)
    return key


def _passphrase_problem(path: Path, passphrase: bytes | None) -> BadInput:
    if passphrase is None:
        return BadInput("key", f"{path} is encrypted.", "Give --passphrase-file.")
    return BadInput("key", f"{path} is not encrypted.", "Leave out --passphrase-file.")


def _private_text(path: Path) -> bytes:
    try:
        text = read_plain_file(path, limit_bytes=_LARGEST_BYTES)
        mode = path.stat().st_mode
    except OSError as error:
        raise BadInput("key", f"{path} cannot be read ({error.strerror}).", "Give the file of a key.") from error
    if stat.S_IMODE(mode) & OTHERS:
        raise BadInput("key", f"{path} is readable by others.", f"Run: chmod 600 {path}")
    return text


def _pin_of(passphrase: bytes | None) -> Callable[[str], str]:
    def pin(_prompt: str) -> str:
        if passphrase is None:
            raise BadInput("key", "The token needs its PIN.", "Name its file: hsm:2?label=TOKEN&pin-source=FILE")
        return passphrase.decode()

    return pin


def _token_signer(reference: str, passphrase: bytes | None, public_key: Key | None) -> Signer:
    if find_spec(HSM_PACKAGE) is None:
        raise BadInput("key", "Keys on tokens need the package python-pkcs11.", "Run: pip install python-pkcs11")
    uri = urlparse(reference)
    named = dict(parse_qsl(uri.query))
    if PIN_SOURCE in named:
        passphrase = (_private_text(Path(named[PIN_SOURCE])).splitlines() or [b""])[0]
    pin = _pin_of(passphrase)
    try:
        if public_key is None:
            _, public_key = HSMSigner.import_(int(uri.path) if uri.path else None, named.get("label"), pin)
        return HSMSigner.from_priv_key_uri(reference, public_key, pin)
    except (ValueError, RuntimeError, OSError) as error:  # PKCS#11's own errors are RuntimeErrors
        said = str(error) or type(error).__name__
        fix = "Write hsm:ID?label=TOKEN&pin-source=FILE, and set PYKCS11LIB to the token's library."
        raise BadInput("key", f"{reference}: {said}.", fix) from error


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
