"""The recipes for fencing, with real databases."""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path
from typing import Iterator

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, select

from examples import fenced_psycopg, fenced_sqlalchemy
from leasehold import Client

from . import postgres
from .server import until


@pytest.fixture(scope="module")
def database() -> Iterator[postgres.Postgres]:
    programs = postgres.find()
    if programs is None:
        pytest.skip("there is no PostgreSQL")
    # Not pytest's folder: PostgreSQL runs as nobody, who cannot enter that one.
    folder = Path(tempfile.mkdtemp())
    database = postgres.Postgres(programs, folder)
    yield database
    database.stop()
    shutil.rmtree(folder)


def check_sqlalchemy(engine: Engine, client: Client) -> None:
    """A late writer with an older token is refused, and what the newer one wrote stays."""
    fenced_sqlalchemy.main(engine, client)
    with client.lock("reports/monday") as lease:
        fenced_sqlalchemy.write_report(engine, "monday", "newer", lease.fencing_token)
    with pytest.raises(fenced_sqlalchemy.StaleTokenError):
        fenced_sqlalchemy.write_report(engine, "monday", "late", lease.fencing_token - 1)
    fenced_sqlalchemy.write_report(engine, "tuesday", "another resource", 1)
    with engine.connect() as connection:
        rows = connection.execute(select(fenced_sqlalchemy.report).order_by("name")).all()
    assert [tuple(row) for row in rows] == [("monday", "newer"), ("tuesday", "another resource")]


def test_sqlalchemy_with_sqlite(client: Client, tmp_path: Path) -> None:
    check_sqlalchemy(create_engine(f"sqlite:///{tmp_path}/reports.db"), client)


def test_sqlalchemy_with_postgresql(client: Client, database: postgres.Postgres) -> None:
    engine = create_engine(database.url)
    fenced_sqlalchemy.metadata.drop_all(engine)
    check_sqlalchemy(engine, client)
    engine.dispose()


def test_psycopg(client: Client, database: postgres.Postgres) -> None:
    with psycopg.connect(database.conninfo, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS fence, report")
        fenced_psycopg.main(database.conninfo, client)
        with client.lock("reports/monday") as lease:
            fenced_psycopg.write_report(connection, "monday", "newer", lease.fencing_token)
        with pytest.raises(fenced_psycopg.StaleTokenError):
            fenced_psycopg.write_report(connection, "monday", "late", lease.fencing_token - 1)
        assert connection.execute("SELECT body FROM report").fetchall() == [("newer",)]


def test_an_older_writer_that_meets_a_newer_one_waits_and_is_refused(database: postgres.Postgres) -> None:
    with psycopg.connect(database.conninfo) as newer, psycopg.connect(database.conninfo, autocommit=True) as older:
        older.execute(fenced_psycopg.TABLES)
        newer.execute(fenced_psycopg.PASS, ("meeting", 9))
        refused = threading.Event()

        def write() -> None:
            with pytest.raises(fenced_psycopg.StaleTokenError):
                fenced_psycopg.write_report(older, "meeting", "late", 8)
            refused.set()

        thread = threading.Thread(target=write)
        thread.start()
        with psycopg.connect(database.conninfo, autocommit=True) as third:
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            until(lambda: third.execute(waits).fetchone() == (1,), "the older one waits")
        newer.commit()
        thread.join(180)
        assert refused.is_set()
