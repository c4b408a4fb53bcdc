"""Keys on a PKCS#11 token sign a root and the online roles; devices verify what they signed."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.release.repositories import write_bundle
from tests.servers.processes import environment_without_settings
from tunefarm.release.checking import check
from tunefarm.release.release_folder import ReleaseFolder

pytestmark = pytest.mark.faults

ROOT = Path(__file__).parents[2]
PLACES = (Path("/"), ROOT / ".venv/softhsm")
PIN = "648219"
MAKE_KEYS = """
import os, pkcs11
from pkcs11.util.ec import encode_named_curve_parameters
token = pkcs11.lib(os.environ["PYKCS11LIB"]).get_token(token_label="tunefarm")
with token.open(rw=True, user_pin=%r) as session:
    for number in (1, 2, 3):
        curve = {pkcs11.Attribute.EC_PARAMS: encode_named_curve_parameters("secp256r1")}
        parameters = session.create_domain_parameters(pkcs11.KeyType.EC, curve, local=True)
        parameters.generate_keypair(store=True, id=bytes([number]), label=f"key {number}")
"""


@dataclass(frozen=True)
class Token:
    """A token of SoftHSM with three keys, and a command line that reaches it."""

    place: Path
    library: Path

    @property
    def environment(self) -> dict[str, str]:
        own = {"SOFTHSM2_CONF": str(self.place / "softhsm2.conf"), "PYKCS11LIB": str(self.library)}
        return {**environment_without_settings(), **own}

    def run(self, *words: str | Path, fails: bool = False) -> str:
        given = list(map(str, words))
        ended = subprocess.run(given, env=self.environment, capture_output=True, text=True, check=False, timeout=300)
        assert (ended.returncode != 0) is fails, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr

    def release(self, *words: str | Path, fails: bool = False) -> str:
        return self.run(sys.executable, "-m", "tunefarm", "release", *words, fails=fails)

    def key(self, number: int, pin: str = PIN) -> str:
        file = self.place / ("pin" if pin == PIN else "other-pin")
        file.write_text(f"{pin}\n")
        file.chmod(0o600)
        return f"hsm:{number}?label=tunefarm&pin-source={file}"


@pytest.fixture
def token(tmp_path: Path) -> Token:
    found = [each for each in PLACES if (each / "usr/lib/softhsm/libsofthsm2.so").is_file()]
    assert found, "SoftHSM is missing: run make test-faults"
    token = Token(tmp_path, found[0] / "usr/lib/softhsm/libsofthsm2.so")
    (tmp_path / "tokens").mkdir()
    (tmp_path / "softhsm2.conf").write_text(f"directories.tokendir = {tmp_path}/tokens\nobjectstore.backend = file\n")
    tool = found[0] / "usr/bin/softhsm2-util"
    words = ("--init-token", "--free", "--label", "tunefarm", "--so-pin", "11111111", "--pin", PIN)
    token.run(tool, "--module", token.library, *words)
    token.run(sys.executable, "-c", MAKE_KEYS % PIN)
    return token


def test_keys_on_a_token_sign_what_devices_verify(token: Token, tmp_path: Path) -> None:
    repository, targets, stable = tmp_path / "releases", tmp_path / "targets.pem", tmp_path / "stable.pem"
    token.release("key", "new", targets, stable)
    keys = ("--root-key", token.key(1), "--targets-key", targets, "--online-key", token.key(2))
    token.release("init", repository, *keys)
    at = ("--repository", repository)
    token.release("channel", "new", "stable", *at, "--key", stable)
    bundle = write_bundle(tmp_path / "bundle", b"library" * 100)
    token.release("publish", bundle, *at, "--channel", "stable", "--name", "cnn-1")
    folder = ReleaseFolder(repository)
    assert check(folder) == []
    root = folder.state().root.signed
    assert {root.keys[each].scheme for each in root.roles["root"].keyids} == {"ecdsa-sha2-nistp256"}
    contents = [path.read_bytes() for path in repository.rglob("*") if path.is_file()]
    assert not [content for content in contents if PIN.encode() in content]

    (old,) = root.roles["timestamp"].keyids
    token.release("rotate", "online", *at, "--old", old, "--new", token.key(3))
    token.release("refresh", *at)
    assert check(folder) == []
    words = (*at, "--channel", "stable", "--name", "cnn-2", "--key", token.key(3, "000000"))
    said = token.release("publish", bundle, *words, fails=True)
    assert "cnn-2" not in folder.read("runners/stable.runner").decode()
    assert "Traceback" not in said
    assert check(folder) == []


def test_channel_keys_are_not_on_tokens(token: Token, tmp_path: Path) -> None:
    repository, online = tmp_path / "releases", tmp_path / "online.pem"
    token.release("key", "new", online)
    token.release("init", repository, "--root-key", token.key(1), "--targets-key", online, "--online-key", online)
    said = token.release("channel", "new", "stable", "--repository", repository, "--key", token.key(2), fails=True)
    assert "Channels need Ed25519 keys" in said


def test_missing_tokens_keys_and_pins_are_named(token: Token, tmp_path: Path) -> None:
    online = tmp_path / "online.pem"
    token.release("key", "new", online)
    others = ("--targets-key", online, "--online-key", online)
    for key, said in (
        ("hsm:1?label=other", "No PKCS#11 token found for label other"),
        (token.key(9), "could not find ECDSA key"),
        ("hsm:9?label=tunefarm", "needs its PIN"),
        ("hsm:one", "invalid literal"),
        (f"hsm:1?label=tunefarm&pin-source={tmp_path}/none", "cannot be read"),
    ):
        assert said in token.release("init", tmp_path / "releases", "--root-key", key, *others, fails=True)
    assert not (tmp_path / "releases").exists()
