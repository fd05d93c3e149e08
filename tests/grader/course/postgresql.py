"""A real PostgreSQL of the tests' own: its programs, a folder, a socket, and no network."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CLUSTER = ["-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C.UTF-8"]


class PostgreSQLMissing(Exception):
    """This machine has none that can be started."""


@contextmanager
def start_postgresql() -> Iterator[str]:
    """The URL of its database. Raises PostgreSQLMissing."""
    programs, user = _find_programs(), _find_user()
    folder = Path(tempfile.mkdtemp(prefix="hc-pg-"))  # a socket's path must be short
    if user:
        shutil.chown(folder, user=user)

    def do(program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(programs / program), "-D", str(folder / "data"), *arguments],
            user=user,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{program}: {done.stderr}"

    do("initdb", *CLUSTER)
    options = f"-k {folder} -c listen_addresses='' -c fsync=off"
    do("pg_ctl", "-l", str(folder / "log"), "-w", "-o", options, "start")
    try:
        yield f"postgresql://postgres@/postgres?host={folder}"
    finally:
        do("pg_ctl", "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder)


def _find_programs() -> Path:
    """Where they are: Debian keeps them out of the path."""
    if found := shutil.which("initdb"):
        return Path(found).parent
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not debian:
        raise PostgreSQLMissing("PostgreSQL is not installed: apt-get install postgresql")
    return debian[-1].parent


def _find_user() -> str | None:
    """Who it runs as, if not as who runs the tests: it refuses to run as root."""
    if os.geteuid() != 0:
        return None
    try:
        pwd.getpwnam("postgres")
    except LookupError:
        raise PostgreSQLMissing(
            "PostgreSQL does not run as root, and there is no user postgres"
        ) from None
    return "postgres"
