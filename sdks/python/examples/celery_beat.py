"""A Celery task that beat sends to any worker, and that runs once at a time.

    celery -A celery_beat worker --beat

The client is made before the workers fork: each of them begins anew, with a thread and an owner of its own.
"""

from __future__ import annotations

from typing import Optional

from celery import Celery

import leasehold

app = Celery("jobs", broker="memory://", backend="cache+memory://")
app.conf.beat_schedule = {"report": {"task": "report", "schedule": 300.0, "args": ["nightly"]}}
client = leasehold.Client()


@client.lock("celery/report", ttl=30).job(skip_if_held=True)
def make_report(lease: leasehold.Lease, name: str) -> str:
    """Do the work; the token goes to whatever is written to."""
    return f"{name} by token {lease.fencing_token}"


@app.task(name="report")  # type: ignore[untyped-decorator, unused-ignore]
def report(name: str) -> Optional[str]:
    """Return `None` if it runs elsewhere."""
    return make_report(name)
