"""A real PostgreSQL server in a temporary folder, on a free port of the loopback, for as long as the tests run."""

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PASSWORD = "s3cret@pass/word"  # characters that a URI must escape
QUOTED = "s3cret%40pass%2Fword"


def binaries() -> Path | None:
    """Where initdb and pg_ctl are, if PostgreSQL is installed."""
    if which := shutil.which("initdb"):
        return Path(which).parent
    return max((path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")), default=None)


@dataclass(frozen=True)
class Server:
    """Where it listens."""

    port: int

    @property
    def login(self) -> dict[str, str | int]:
        return {"host": "127.0.0.1", "port": self.port, "user": "tester", "password": PASSWORD, "dbname": "postgres"}

    def uri(self, table: str, password: str = QUOTED) -> str:
        return f"postgresql://tester:{password}@127.0.0.1:{self.port}/postgres?table={table}"


@cache
def server() -> Server:
    """Started once; stopped when the process ends."""
    path = binaries()
    assert path is not None
    folder = Path(tempfile.mkdtemp(prefix="leastnoise-postgres-"))
    secret = folder / "password"
    secret.write_text(PASSWORD)
    data = folder / "data"
    if os.getuid() == 0:
        shutil.chown(folder, "postgres")
        shutil.chown(secret, "postgres")
    _run(path / "initdb", "-D", data, "-U", "tester", f"--pwfile={secret}", "-A", "scram-sha-256", "-E", "UTF8")
    port = _free_port()
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    _run(path / "pg_ctl", "-D", data, "-o", options, "-l", folder / "log", "-w", "start")

    def stop() -> None:
        _run(path / "pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)
    return Server(port)


def _run(*command: object) -> None:
    # PostgreSQL refuses to run as root.
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
    words = [*user, *map(str, command)]
    subprocess.run(words, check=True, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
