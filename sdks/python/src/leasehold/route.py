"""From URL to URL: one is asked until it does not answer, or another one leads."""

from __future__ import annotations

import time
from typing import Optional, Tuple

from .errors import Invalid
from .settings import base, unix_path

#: Where the leader cannot be reached by us, those that follow it pass requests on. For so many seconds they are asked
#: to do so at once, instead of saying first that they do not lead.
PASSED_ON_FOR = 30.0


class Routes:
    """The URLs of one server, or of several that are one to their clients."""

    def __init__(self, urls: Tuple[str, ...], *, direct: bool, follow_any_leader: bool) -> None:
        self._given = urls
        self._direct = direct
        self._follows_any = follow_any_leader
        #: Who is asked first: the one that answered last.
        self.chosen = urls[0]
        #: Until then nobody is asked who leads.
        self.passed_on_until = 0.0

    @property
    def are_several(self) -> bool:
        """Whether there is another one to ask."""
        return len(self._given) > 1

    def begin(self) -> Trip:
        """Return a request's way, which begins at the one that answered last."""
        return Trip(self, direct=self._direct and time.monotonic() >= self.passed_on_until)

    def after(self, url: str) -> str:
        """Return the next one in the order they were given; the first after one that was not."""
        at = self._given.index(url) if url in self._given else -1
        return self._given[(at + 1) % len(self._given)]

    def others(self, url: str) -> Tuple[str, ...]:
        """Return all that were given, beginning with the one after this."""
        at = self._given.index(self.after(url))
        return self._given[at:] + self._given[:at]

    def leader(self, said: Optional[str]) -> Optional[str]:
        """Return where a server says the leader is, if we go there. Whoever was not given gets no credentials."""
        try:
            leader = base(said or "")
        except Invalid:
            return None
        if unix_path(leader) is not None:
            return None
        if leader in self._given:
            return leader
        # Whoever speaks TLS with all servers does not begin to speak without.
        is_safe = leader.startswith("https:") or not all(url.startswith("https:") for url in self._given)
        return leader if self._follows_any and is_safe else None


class Trip:
    """A request's way from URL to URL, as long as it is certain that nothing was done.

    It goes at most once to each of them, and once more to one that is to pass the request on.
    """

    def __init__(self, routes: Routes, *, direct: bool) -> None:
        self._routes = routes
        self.url = routes.chosen
        #: Whoever does not lead is to say so, instead of passing the request on.
        self.direct = direct
        self._tried = {self.url}
        #: The last that said that it does not lead.
        self._follower: Optional[str] = None

    def was_answered(self) -> None:
        """Let the one asked be asked first from now on."""
        self._routes.chosen = self.url
        if self._follower is not None and not self.direct:
            self._routes.passed_on_until = time.monotonic() + PASSED_ON_FOR

    def failed(self) -> None:
        """Let others begin at the next one. Of many that fail at once, only the first moves on."""
        if self._routes.chosen == self.url:
            self._routes.chosen = self._routes.after(self.url)

    def go_on(self) -> bool:
        """Go on if there is another one to ask: no connection came about."""
        return self._next(None)

    def go_on_from_follower(self, leader: Optional[str]) -> bool:
        """Go on if there is another one to ask: this one does not lead, and says who does if it knows."""
        self._follower = self.url
        return self._next(self._routes.leader(leader))

    def _next(self, leader: Optional[str]) -> bool:
        self.failed()
        others = self._routes.others(self.url)
        for url in others if leader is None else (leader, *others):
            if url not in self._tried:
                self._tried.add(url)
                self.url = url
                return True
        # Nobody whom we can reach leads: one of them is to pass it on.
        if self._follower is None or not self.direct:
            return False
        self.url, self.direct = self._follower, False
        return True
