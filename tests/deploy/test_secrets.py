"""Every farm gets new passwords and certificates, which servers accept with the files in deploy."""

import json
import os
import pwd
import shutil
import ssl
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.source import DEPLOY, compose, interpolated
from tests.store.postgresql_server import postgresql_folder


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(DEPLOY / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("secrets")
    assert (
        run("make-certificates", "--folder", str(made), "--name", "redis=broker.example.org,10.0.0.5").returncode == 0
    )
    assert run("make-secrets", "--folder", str(made), "--env", str(made / ".env"), "--s3").returncode == 0
    return made


def variables(path: Path) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in path.read_text(encoding="utf-8").splitlines())


def test_make_secrets_sets_every_compose_variable(folder):
    values = variables(folder / ".env") | {"TUNEFARM_WORKER_CPUS": "0-1"}
    for service in compose()["services"].values():
        for value in service.get("environment", {}).values():
            assert value is None or "${" not in interpolated(str(value), values)


def test_make_secrets_creates_every_mounted_file(folder):
    mounts = [mount for service in compose()["services"].values() for mount in service.get("volumes", ())]
    below = "./deploy/secrets/"
    named = {mount.split(":")[0].removeprefix(below) for mount in mounts if mount.startswith(below)}
    assert named <= {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_passwords_are_unique_and_private(folder, tmp_path):
    run("make-secrets", "--folder", str(tmp_path), "--env", str(tmp_path / ".env"))
    ours, theirs = variables(folder / ".env"), variables(tmp_path / ".env")
    passwords = {name for name in theirs if name.endswith("PASSWORD")}
    assert len(passwords) == 4
    assert all(len(ours[name]) >= 40 and ours[name] != theirs[name] for name in passwords)
    private = [".env", "ca.key", "api.key", "postgres.key", "redis.key", "objects.key"]
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in private} == {0o600}


def test_make_secrets_replaces_only_its_lines_on_request(tmp_path):
    arguments = ("--folder", str(tmp_path), "--env", str(tmp_path / ".env"))
    (tmp_path / ".env").write_text("TUNEFARM_WORKER_CPUS=2-7\n", encoding="utf-8")
    refused = run("make-secrets", *arguments)
    assert (refused.returncode, "--replace" in refused.stderr) == (2, True)
    assert run("make-secrets", *arguments, "--replace").returncode == 0
    first = variables(tmp_path / ".env")
    assert run("make-secrets", *arguments, "--replace").returncode == 0
    second = variables(tmp_path / ".env")
    assert first["TUNEFARM_WORKER_CPUS"] == second["TUNEFARM_WORKER_CPUS"] == "2-7"
    assert first["TUNEFARM_POSTGRES_PASSWORD"] != second["TUNEFARM_POSTGRES_PASSWORD"]
    assert len(second) == len(first)


def secrets_of(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run("make-secrets", "--folder", str(folder), "--env", str(folder / ".env"), *arguments)


def contents(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in files}


def test_object_store_can_be_added_to_existing_farm(tmp_path):
    assert secrets_of(tmp_path).returncode == 0
    with (tmp_path / ".env").open("a", encoding="utf-8") as env:
        env.write("TUNEFARM_WORKER_CPUS=2-7\n")
    before = contents(tmp_path)
    assert secrets_of(tmp_path, "--s3").returncode == 0
    after = contents(tmp_path)
    assert after["users.acl"] == before["users.acl"]
    assert after[".env"].startswith(before[".env"])
    added = variables(tmp_path / ".env")
    (user,) = json.loads(after["objects/s3.json"])["identities"]
    key = {"accessKey": added["AWS_ACCESS_KEY_ID"], "secretKey": added["AWS_SECRET_ACCESS_KEY"]}
    assert user["credentials"] == [key]
    assert added["TUNEFARM_BLOB_URL"] == "s3://tunefarm/blobs"
    assert secrets_of(tmp_path, "--s3").returncode == 0
    assert contents(tmp_path) == after


def test_object_store_key_is_replaced_only_on_request(tmp_path):
    assert secrets_of(tmp_path, "--s3").returncode == 0
    first = variables(tmp_path / ".env")
    replaced = secrets_of(tmp_path, "--replace")
    assert "PostgreSQL" in replaced.stdout
    second, users = variables(tmp_path / ".env"), contents(tmp_path)["objects/s3.json"]
    assert {name for name in first if second[name] != first[name]} == {name for name in first if "PASSWORD" in name}
    assert first["AWS_SECRET_ACCESS_KEY"] in users
    assert secrets_of(tmp_path, "--replace", "--s3").returncode == 0
    third, users = variables(tmp_path / ".env"), contents(tmp_path)["objects/s3.json"]
    kept = ("TUNEFARM_BLOB_URL", "AWS_ENDPOINT_URL", "AWS_REGION", "SSL_CERT_FILE")
    assert {name for name in first if third[name] == first[name]} == set(kept)
    assert third["AWS_SECRET_ACCESS_KEY"] in users
    assert first["AWS_SECRET_ACCESS_KEY"] not in users


def test_external_object_store_is_kept(tmp_path):
    own = (
        "TUNEFARM_BLOB_URL=s3://ours/blobs\nAWS_ENDPOINT_URL=https://s3.example.org\n"
        "AWS_ACCESS_KEY_ID=ours\nAWS_SECRET_ACCESS_KEY=ours\nSSL_CERT_FILE=/etc/ours.pem\n"
    )
    assert secrets_of(tmp_path).returncode == 0
    with (tmp_path / ".env").open("a", encoding="utf-8") as env:
        env.write(own)
    assert secrets_of(tmp_path, "--replace").returncode == 0
    assert contents(tmp_path)[".env"].endswith(own)
    before = contents(tmp_path)
    for arguments in (["--s3"], ["--s3", "--replace"]):
        refused = secrets_of(tmp_path, *arguments)
        assert (refused.returncode, "AWS_ENDPOINT_URL" in refused.stderr) == (2, True)
        assert contents(tmp_path) == before


def test_make_secrets_refuses_if_env_is_missing(tmp_path):
    assert secrets_of(tmp_path).returncode == 0
    (tmp_path / ".env").unlink()
    before = contents(tmp_path)
    refused = secrets_of(tmp_path, "--s3")
    assert (refused.returncode, "--replace" in refused.stderr) == (2, True)
    assert contents(tmp_path) == before


def test_object_store_keys_are_readable_in_container_only(folder):
    path = folder / "objects" / "s3.json"
    # Only the file is mounted in the container, whose user does not own it.
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_broker_user_list_contains_no_password(folder):
    text = (folder / "users.acl").read_text(encoding="utf-8")
    assert not [value for name, value in variables(folder / ".env").items() if "PASSWORD" in name and value in text]


def test_renewal_keeps_the_authority(tmp_path):
    made = []
    for _ in range(2):
        assert run("make-certificates", "--folder", str(tmp_path)).returncode == 0
        made.append([(tmp_path / name).read_bytes() for name in ("ca.pem", "api.pem")])
    (authority, api), (authority_then, api_then) = made
    assert authority == authority_then
    assert api != api_then


def test_renewal_keeps_server_names(tmp_path):
    for names in (["--name", "redis=broker.example.org,10.0.0.5"], [], ["--name", "redis=new.example.org"]):
        assert run("make-certificates", "--folder", str(tmp_path), *names).returncode == 0
    for name in ("redis", "broker.example.org", "10.0.0.5", "new.example.org"):
        handshake(tmp_path / "redis.pem", tmp_path / "redis.key", tmp_path / "ca.pem", name)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path / "api.pem", tmp_path / "api.key", tmp_path / "ca.pem", "broker.example.org")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_renewal_keeps_key_owners(tmp_path):
    assert run("make-certificates", "--folder", str(tmp_path), "--chown").returncode == 0
    assert run("make-certificates", "--folder", str(tmp_path)).returncode == 0
    owners = {path.stem: path.stat().st_uid for path in tmp_path.glob("*.key") if path.stem != "ca"}
    assert owners == {"api": 10001, "objects": 10001, "postgres": 999, "redis": 999}


def handshake(server_pem: Path, server_key: Path, authority: Path, name: str) -> None:
    """A TLS handshake in memory that verifies the server's name, as clients do."""
    ours, theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=authority)
    ours.load_cert_chain(server_pem, server_key)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = ours.wrap_bio(to_server, to_client, server_side=True)
    client = theirs.wrap_bio(to_client, to_server, server_hostname=name)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue


@pytest.mark.parametrize("name", ["redis", "localhost", "127.0.0.1", "broker.example.org", "10.0.0.5"])
def test_client_trusts_every_name_of_a_server(folder, name):
    handshake(folder / "redis.pem", folder / "redis.key", folder / "ca.pem", name)


def test_client_rejects_name_of_another_server(folder):
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(folder / "redis.pem", folder / "redis.key", folder / "ca.pem", "postgres")


@pytest.mark.parametrize(
    "arguments", [("--name", "nobody=x"), ("--name", "redis"), ("--days", "0")], ids=["server", "no host", "days"]
)
def test_make_certificates_rejects_invalid_host_names(tmp_path, arguments):
    refused = run("make-certificates", "--folder", str(tmp_path), *arguments)
    assert refused.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_postgresql_requires_verified_tls(folder, tmp_path, free_port):
    programs = postgresql_folder()
    if programs is None:
        pytest.skip("no PostgreSQL on this machine")
    server = PostgreSQL(programs, folder, free_port)
    try:
        from tunefarm_services.store import Store, StoreUnavailable

        url = f"postgresql+psycopg://tunefarm:{server.password}@127.0.0.1:{free_port}/tunefarm"
        verified = f"{url}?sslmode=verify-full&sslrootcert={folder / 'ca.pem'}"
        Store.open(verified, tmp_path / "blobs").close()
        with pytest.raises(StoreUnavailable):
            Store.open(f"{url}?sslmode=disable", tmp_path / "blobs")
        run("make-certificates", "--folder", str(tmp_path / "others"))
        with pytest.raises(StoreUnavailable, match="certificate"):
            Store.open(f"{url}?sslmode=verify-full&sslrootcert={tmp_path}/others/ca.pem", tmp_path / "blobs")
    finally:
        server.stop()


class PostgreSQL:
    """A server with the configuration of deploy/postgresql and other absolute paths."""

    def __init__(self, programs: Path, secrets: Path, port: int) -> None:
        import tempfile

        self.password = variables(secrets / ".env")["TUNEFARM_POSTGRES_PASSWORD"]
        self._root = Path(tempfile.mkdtemp(prefix="tunefarm-pg-"))
        user = "nobody" if os.geteuid() == 0 else None
        settings = (DEPLOY / "postgresql" / "postgresql.conf").read_text(encoding="utf-8")
        settings = settings.replace("5432", str(port)).replace("'*'", "'127.0.0.1'")
        settings = settings.replace("/etc/postgresql", str(self._root))
        # The test machine is smaller than a production server.
        settings = settings.replace("'1GB'", "'16MB'")
        (self._root / "postgresql.conf").write_text(settings + f"unix_socket_directories = '{self._root}'\n")
        shutil.copy(DEPLOY / "postgresql" / "pg_hba.conf", self._root)
        shutil.copy(secrets / "postgres.pem", self._root / "server.pem")
        shutil.copy(secrets / "postgres.key", self._root / "server.key")
        (self._root / "password").write_text(self.password)
        if user is not None:
            for path in (self._root, *self._root.iterdir()):
                os.chown(path, pwd.getpwnam(user).pw_uid, -1)
        quiet = {"user": user, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": self._root}
        data = self._root / "data"
        # As in the entry point of the image.
        given = ["-U", "tunefarm", f"--pwfile={self._root / 'password'}", "--auth=scram-sha-256", "--data-checksums"]
        subprocess.run([programs / "initdb", "-D", data, "--no-sync", "-E", "UTF8", *given], check=True, **quiet)
        options = f"-c config_file={self._root / 'postgresql.conf'}"
        self._control = [programs / "pg_ctl", "-D", data, "--wait", "--timeout", "90", "--silent"]
        self._quiet = quiet
        subprocess.run([*self._control, "start", "--options", options], check=True, **quiet)
        environment = {**os.environ, "PGPASSWORD": self.password}
        created = [programs / "createdb", "-h", self._root, "-p", str(port), "-U", "tunefarm", "tunefarm"]
        subprocess.run(created, check=True, env=environment)

    def stop(self) -> None:
        subprocess.run([*self._control, "stop"], check=True, **self._quiet)
        shutil.rmtree(self._root, ignore_errors=True)
