"""Fencing with SQLAlchemy: a transaction that carries a stale token writes nothing. For PostgreSQL and SQLite."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Engine, MetaData, Table, Text, text
from sqlalchemy.orm import Session

import leasehold

metadata = MetaData()
fence = Table(
    "fence",
    metadata,
    Column("resource", Text, primary_key=True),
    Column("token", BigInteger, nullable=False),
)
report = Table("report", metadata, Column("name", Text, primary_key=True), Column("body", Text, nullable=False))

# Compares and remembers in one step. The row stays locked until the end of the transaction.
PASS = text(
    "INSERT INTO fence (resource, token) VALUES (:resource, :token) "
    "ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE fence.token <= excluded.token"
)


class StaleTokenError(Exception):
    """A newer token was here already: whoever has this one has lost its lock."""


def pass_fence(session: Session, resource: str, token: int) -> None:
    """Refuse a stale token. It is the first thing in the transaction that writes."""
    if session.connection().execute(PASS, {"resource": resource, "token": token}).rowcount != 1:
        raise StaleTokenError(f"token {token} of {resource} is stale")


def write_report(engine: Engine, name: str, body: str, token: int) -> None:
    """Write a report if the token is not stale."""
    with Session(engine) as session, session.begin():
        pass_fence(session, name, token)
        session.execute(report.delete().where(report.c.name == name))
        session.execute(report.insert().values(name=name, body=body))


def main(engine: Engine, client: leasehold.Client) -> None:
    """Write a report under a lock."""
    metadata.create_all(engine)
    with client.lock("reports/monday", ttl=30, wait=60) as lease:
        write_report(engine, "monday", "all is well", lease.fencing_token)
