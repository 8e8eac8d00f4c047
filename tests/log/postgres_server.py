"""A Postgres server for tests, in a temporary directory; it can be killed and started again."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from tests.ports import free_port

USER, PASSWORD = "rx", "a secret"
WAITS = 60.0
SETTINGS = {
    # The directory is deleted at the end: nothing need survive a loss of power.
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "autovacuum": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "jit": "off",
    "max_connections": "200",
    "max_wal_size": "4GB",
    "listen_addresses": "127.0.0.1",
}


def find_programs() -> Path | None:
    """The directory of ``postgres`` and ``initdb``."""
    found = shutil.which("postgres")
    places = [Path(found).resolve().parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for place in places:
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    return None


def why_missing() -> str:
    """Why no server can be started; empty if one can."""
    try:
        importlib.import_module("rxworker.log.postgres")
    except ImportError as error:
        return str(error)
    if find_programs() is None:
        return "Postgres is not installed: apt-get install postgresql"
    return ""


def require_postgres() -> None:
    """Skip the tests if no server can be started, or fail where everything has to be there."""
    if missing := why_missing():
        if os.environ.get("RXWORKER_REQUIRE_ALL") == "1":
            pytest.fail(missing)
        pytest.skip(missing, allow_module_level=True)


class PostgresServer:
    """A server with one database.

    Args:
        template: A folder for a copy of what ``initdb`` writes, which takes a second, for the other servers of a run.
        settings: Settings beside `SETTINGS`.
    """

    def __init__(self, template: Path | None = None, **settings: str) -> None:
        programs = find_programs()
        assert programs is not None
        self._programs = programs
        self._settings = SETTINGS | settings
        self._user: str | None = None
        # Not the directory of the test: another user cannot look into that, and the path of a socket is short.
        if os.geteuid() == 0:  # neither program runs as root
            self._user = _unprivileged()
            self.folder = Path(tempfile.mkdtemp(prefix="rxpg-", dir=_open_to_all()))
            shutil.chown(self.folder, self._user)
        else:
            self.folder = Path(tempfile.mkdtemp(prefix="rxpg-"))
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._schemas = 0
        self._make_data(template)
        # By the socket without a password, by the network with one.
        rules = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        (self.folder / "data" / "pg_hba.conf").write_text(rules)
        self.start()

    def _make_data(self, template: Path | None) -> None:
        data = self.folder / "data"
        with nullcontext() if template is None else locked(template.with_suffix(".lock")):
            if template is not None and template.exists():
                shutil.copytree(template, data)
                if (user := self._user) is not None:
                    for path in (data, *data.rglob("*")):
                        shutil.chown(path, user)
                return
            self._run("initdb", "--no-sync", "-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C", "-D", str(data))
            if template is not None:
                shutil.copytree(data, template)

    def _run(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._programs / name), *arguments],
            check=False, capture_output=True, cwd=self.folder, user=self._user,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()

    def address(self, schema: str = "", *, password: str = "") -> str:
        """The address of a log."""
        ending = f"&schema={schema}" if schema else ""
        if password:
            return f"postgresql://{USER}:{password.replace(' ', '%20')}@127.0.0.1:{self.port}/postgres?{ending[1:]}"
        return f"postgresql://{USER}@/postgres?host={self.folder}&port={self.port}{ending}"

    def new_address(self) -> str:
        """The address of a log that does not exist yet."""
        self._schemas += 1
        return self.address(f"log_{self._schemas}")

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        import psycopg  # optional

        settings = [f"-c{name}={value}" for name, value in self._settings.items()]
        arguments = ["-D", str(self.folder / "data"), "-k", str(self.folder), "-p", str(self.port)]
        end = time.monotonic() + WAITS
        while True:
            if self._process is None or self._process.poll() is not None:
                # After a kill it refuses to start as long as a process of the killed one is ending.
                with (self.folder / "log").open("ab") as log:
                    self._process = subprocess.Popen(
                        [str(self._programs / "postgres"), *arguments, *settings],
                        stdout=log, stderr=log, cwd=self.folder, user=self._user,
                    )  # fmt: skip
            try:
                with psycopg.connect(self.address(), autocommit=True) as connection:
                    connection.execute(f"ALTER ROLE {USER} PASSWORD '{PASSWORD}'".encode())
                return
            except psycopg.OperationalError:
                assert time.monotonic() < end, (self.folder / "log").read_text()
                time.sleep(0.01)

    def stop_flushing(self) -> None:
        """Stop its processes that write to the disk what no client waits for, until it is killed."""
        for pid in self._pids("'walwriter', 'background writer', 'checkpointer'"):
            os.kill(pid, signal.SIGSTOP)

    def kill(self) -> None:
        """End all of its processes at once."""
        assert self._process is not None
        pids = self._pids("backend_type")
        for pid in (self._process.pid, *pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def _pids(self, types: str) -> list[int]:
        import psycopg  # optional

        query = f"SELECT pid FROM pg_stat_activity WHERE backend_type IN ({types}) AND pid <> pg_backend_pid()"
        with psycopg.connect(self.address()) as connection:
            return [pid for (pid,) in connection.execute(query.encode())]

    def close(self) -> None:
        """End it, and delete what it has written."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Have a file for oneself."""
    import fcntl  # not on Windows

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _unprivileged() -> str:
    import pwd  # not on Windows

    names = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _open_to_all() -> str:
    """A directory for temporary files that other users can look into; the usual one may be closed to them."""
    for place in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        folder = Path(place).resolve()
        if all(each.stat().st_mode & 0o001 for each in (folder, *folder.parents)):
            return str(folder)
    pytest.fail(
        "The user that runs Postgres cannot look into a directory for temporary files: set TMPDIR to another one"
    )
