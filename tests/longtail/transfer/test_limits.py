"""The limiter of one process."""

from __future__ import annotations

from longtail.transfer import limits
from longtail.transfer.limits import Limiter


def test_a_pause_holds_the_next_request(fake_time) -> None:
    limiter = Limiter(0.0, 3, fake_time.clock())
    limiter.pause(12.0)
    for _ in range(2):
        with limiter.slot():
            pass
    assert fake_time.sleeps == [12.0]


def test_every_service_has_the_limits_that_wikimedia_publishes() -> None:
    """One query at a time; one download at a time; 200 requests per minute and 3 in parallel of all others together."""
    services = {one.name: one for one in vars(limits).values() if isinstance(one, limits.Service)}
    found = {one.name: (one.quota, one.max_parallel, one.interval_s) for one in services.values()}
    assert found == {
        "Wikimedia": ("operator", 3, 0.3), "entity API (wbgetentities)": ("operator", 3, 0.3),
        "page view API": ("operator", 3, 0.3), "title API (action=query)": ("operator", 3, 0.3),
        "SPARQL query service": ("queries", 1, 1.0), "dumps": ("dumps", 1, 1.0), "file": ("files", 1, 0.3),
    }  # fmt: skip
    assert [one.name for one in services.values() if not (one.is_wikimedia and one.needs_contact)] == ["file"]
    assert (limits.FILES.is_wikimedia, limits.FILES.needs_contact) == (False, False)
