"""An operator in the style of Airflow: its work is done while a lock is held, also by another DAG or another Airflow.

LockedOperator(task_id="report", lock="warehouse", wait=600, work=write_report)
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

import leasehold

try:
    from airflow.models import BaseOperator  # type: ignore[import-not-found, unused-ignore]
except ImportError:

    class BaseOperator:  # type: ignore[no-redef]
        """What is used of Airflow's, so that this file can be tried without it."""

        def __init__(self, *, task_id: str, **_: Any) -> None:
            self.task_id = task_id


class LockedOperator(BaseOperator):  # type: ignore[misc, unused-ignore]
    """Calls `work(lease, context)` under a lock. Whoever kills the task gives the lock back."""

    def __init__(
        self,
        *,
        lock: str,
        work: Callable[[leasehold.Lease, Dict[str, Any]], Any],
        ttl: float = 30.0,
        wait: float = 0.0,
        url: Optional[str] = None,
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        self.lock, self.work, self.ttl, self.wait, self.url = lock, work, ttl, wait, url
        self._lease: Optional[leasehold.Lease] = None

    def execute(self, context: Dict[str, Any]) -> Any:
        """Do the work. A lock that is held elsewhere fails the task, so that Airflow tries it again."""
        # Made here, not in __init__: a DAG is read in one process and its tasks run in others.
        with leasehold.Client(self.url) as client:
            request = client.lock(self.lock, ttl=self.ttl, wait=self.wait, metadata={"task_id": self.task_id})
            with request as self._lease:
                return self.work(self._lease, context)

    def on_kill(self) -> None:
        """Give the lock back at once."""
        if self._lease is not None:
            self._lease.release()
