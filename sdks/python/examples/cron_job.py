"""A job for cron on several machines: whoever comes first runs it, the others skip it.

*/5 * * * * LEASEHOLD_URL=http://locks:8080 python3 cron_job.py /var/lib/report.txt
"""

from __future__ import annotations

import sys

import leasehold

client = leasehold.Client()


@client.lock("cron/report", ttl=30).job(skip_if_held=True)
def report(lease: leasehold.Lease, path: str) -> str:
    """Write the report, piece by piece, as long as the lock is ours."""
    with open(path, "a", encoding="utf-8") as file:
        for part in ("orders", "stock"):
            lease.check()
            file.write(f"{part} by token {lease.fencing_token}\n")
        # Quick work is not done again by a machine whose clock is a little behind.
        lease.leave_for(60)
    return "done"


if __name__ == "__main__":
    print(report(sys.argv[1]) or "skipped: it runs elsewhere, or has just run")
