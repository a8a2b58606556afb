"""A PostgreSQL of the test's own, reached only by a socket in its folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import List, Optional


def find() -> Optional[Path]:
    """Return the folder of its programs."""
    found = shutil.which("postgres")
    candidates = [Path(found).resolve()] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    for postgres in reversed(candidates):
        if (postgres.parent / "initdb").exists() and (postgres.parent / "pg_ctl").exists():
            return postgres.parent
    return None


class Postgres:
    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        # PostgreSQL does not run as root.
        self._user: List[str] = []
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody")
            self._user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        self._run("initdb", "--auth=trust", "--username=fencing", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
        self._run("pg_ctl", f"--log={folder}/log", "--wait", f"--options={options}", "start")
        self.conninfo = f"host={folder} user=fencing dbname=postgres"
        self.url = f"postgresql+psycopg://fencing@/postgres?host={folder}"

    def stop(self) -> None:
        self._run("pg_ctl", "--mode=immediate", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._user, str(self._programs / program), f"--pgdata={self._folder}/data", *arguments]
        subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL, cwd="/")
