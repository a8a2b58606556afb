"""Fencing with psycopg: a transaction that carries a stale token writes nothing. See docs/concepts/fencing.md."""

from __future__ import annotations

import psycopg

import leasehold

TABLES = """
CREATE TABLE IF NOT EXISTS fence (resource text PRIMARY KEY, token bigint NOT NULL);
CREATE TABLE IF NOT EXISTS report (name text PRIMARY KEY, body text NOT NULL);
"""

# Compares and remembers in one step. The row stays locked until the end of the transaction.
PASS = """
INSERT INTO fence (resource, token) VALUES (%s, %s)
ON CONFLICT (resource) DO UPDATE SET token = EXCLUDED.token WHERE fence.token <= EXCLUDED.token
"""

WRITE = "INSERT INTO report VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET body = EXCLUDED.body"


class StaleTokenError(Exception):
    """A newer token was here already: whoever has this one has lost its lock."""


def write_report(connection: psycopg.Connection[tuple[object, ...]], name: str, body: str, token: int) -> None:
    """Write a report if the token is not stale."""
    with connection.transaction():
        if connection.execute(PASS, (name, token)).rowcount != 1:
            raise StaleTokenError(f"token {token} of {name} is stale")
        connection.execute(WRITE, (name, body))


def main(conninfo: str, client: leasehold.Client) -> None:
    """Write a report under a lock."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(TABLES)
        with client.lock("reports/monday", ttl=30, wait=60) as lease:
            write_report(connection, "monday", "all is well", lease.fencing_token)
