"""Servers of databases that others wrote, where this machine has them, each with a directory of its own on loopback."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from importlib.util import find_spec
from pathlib import Path

import pytest
from bench.process import free_ports
from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError

START_S = 60
SOMEBODY = "nobody"
"""Who has a server that refuses to be root's."""


@contextmanager
def postgresql() -> Iterator[str]:
    """Its URL for SQLAlchemy; a test without a server or a driver is skipped, and says what is missing."""
    places = [*sorted(glob("/usr/lib/postgresql/*/bin"), reverse=True), os.environ["PATH"]]
    initdb = shutil.which("initdb", path=os.pathsep.join(places))
    if initdb is None:
        pytest.skip("PostgreSQL is not here: no initdb in PATH or /usr/lib/postgresql (apt install postgresql)")
    if find_spec("psycopg") is None:
        pytest.skip("the driver of PostgreSQL is not here: pip install 'psycopg[binary]'")
    with _directory() as directory:
        data, port = str(directory / "data"), free_ports(1)[0]
        # An order of texts as people sort them, not that of bytes: where it would matter, it shows.
        made = [initdb, "-D", data, "-U", "postgres", "-A", "trust", "--encoding=UTF8", "--locale-provider=icu"]
        _run([*made, "--icu-locale=en-US", "--locale=C.UTF-8"])
        options = ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={directory}", "-c", "fsync=off"]
        server = str(Path(initdb).with_name("postgres"))
        with _running([server, "-D", data, "-p", str(port), *options], directory):
            yield _answering(f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres")


@contextmanager
def mariadb() -> Iterator[str]:
    """Its URL for SQLAlchemy; a test without a server or a driver is skipped, and says what is missing."""
    server = shutil.which("mariadbd", path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")
    install = shutil.which("mariadb-install-db")
    if server is None or install is None:
        pytest.skip("MariaDB is not here: no mariadbd and mariadb-install-db (apt install mariadb-server)")
    if find_spec("pymysql") is None:
        pytest.skip("the driver of MariaDB is not here: pip install pymysql")
    with _directory() as directory:
        places = [f"--datadir={directory / 'data'}", f"--socket={directory / 'socket'}"]
        _run([install, "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", *places])
        port = free_ports(1)[0]
        command = [server, "--no-defaults", *places, "--bind-address=127.0.0.1", f"--port={port}"]
        with _running(command, directory):
            root = f"mysql+pymysql://root@127.0.0.1:{port}"
            with create_engine(_answering(f"{root}/mysql")).begin() as connection:
                connection.exec_driver_sql("CREATE DATABASE shop")
            yield f"{root}/shop"


@contextmanager
def _directory() -> Iterator[Path]:
    """Short, since sockets are in it, and of the user who runs the server."""
    with tempfile.TemporaryDirectory(prefix="db-") as name:
        if (user := _user()) is not None:
            os.chown(name, pwd.getpwnam(user).pw_uid, -1)
        yield Path(name)


def _user() -> str | None:
    return SOMEBODY if os.geteuid() == 0 else None


def _run(command: list[str]) -> None:
    done = subprocess.run(command, user=_user(), cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def _running(command: list[str], directory: Path) -> Iterator[None]:
    with (
        (directory / "log").open("w") as log,
        subprocess.Popen(command, user=_user(), cwd="/", stdout=log, stderr=log) as server,
    ):
        try:
            yield
        finally:
            server.kill()


def _answering(url: str) -> str:
    """As soon as it does."""
    engine, deadline = create_engine(url), time.monotonic() + START_S
    while True:
        try:
            engine.connect().close()
        except OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            engine.dispose()
            return url
