"""APScheduler in every replica of a service: each of them is due, one of them does it."""

from __future__ import annotations

from apscheduler.schedulers.background import BackgroundScheduler

import leasehold

client = leasehold.Client()


@client.lock("apscheduler/report", ttl=30).job(skip_if_held=True)
def report(lease: leasehold.Lease) -> None:
    """Do the work; the token goes to whatever is written to."""
    print(f"reported by token {lease.fencing_token}", flush=True)


def scheduler() -> BackgroundScheduler:
    """Return a scheduler that is not started yet."""
    made = BackgroundScheduler()
    made.add_job(report, "interval", minutes=5, id="report")
    return made
