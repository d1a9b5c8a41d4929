"""The limiter of one process."""

from __future__ import annotations

from dagster_project.core.wikimedia.transport.limits import Limiter


def test_a_pause_holds_the_next_request(fake_time) -> None:
    limiter = Limiter(0.0, 3, fake_time.clock())
    limiter.pause(12.0)
    for _ in range(2):
        with limiter.slot():
            pass
    assert fake_time.sleeps == [12.0]
