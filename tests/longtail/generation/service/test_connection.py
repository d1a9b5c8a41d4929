"""The limits of a minute, without waiting one."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from flaky_server import FlakyServer
from hypothesis import given, settings
from hypothesis import strategies as st
from served import GREEDY

from longtail.generation.backends.service.connection import MinuteQuota, nap
from tests.fake_time import FakeTime

GO = threading.Event()


def _most_in_a_window(sent: list[tuple[float, int]]) -> tuple[int, int]:
    """The most requests and tokens in any 60 seconds; a window that begins at a request is among the fullest."""
    windows = [[tokens for at, tokens in sent if start <= at < start + 60] for start, _ in sent]
    return max(map(len, windows)), max(map(sum, windows))


@given(
    st.lists(st.tuples(st.integers(1, 400), st.integers(0, 400), st.floats(0, 30)), min_size=1, max_size=60),
    st.integers(1, 12),
    st.integers(400, 2000),
)
@settings(deadline=None)
def test_no_minute_holds_more_than_granted(
    rows: list[tuple[int, int, float]], requests: int, tokens: int
) -> None:
    """Each row: tokens as estimated, as counted (fewer or, once, as many), and the seconds it takes."""
    time = FakeTime()
    quota = MinuteQuota(requests, tokens, time.clock())
    sent = []
    for estimate, counted, seconds in rows:
        sending = quota.start(estimate, GO)
        assert sending is not None
        assert sending.at == time.seconds
        time.sleep(seconds)
        quota.count(sending, min(estimate, counted))
        sent.append((sending.at, min(estimate, counted)))
    most_requests, most_tokens = _most_in_a_window(sent)
    assert most_requests <= requests
    assert most_tokens <= tokens


def test_the_grant_is_used() -> None:
    """1,000 requests at 60 a minute take 16 to 17 minutes; 10 tokens each of 600 a minute take the same."""
    for requests, tokens in ((60, None), (None, 600)):
        time = FakeTime()
        quota = MinuteQuota(requests, tokens, time.clock())
        for _ in range(1000):
            quota.start(10, GO)
        assert 960 <= time.seconds - 1_000.0 <= 1_000


def test_counting_an_answer_makes_room() -> None:
    time = FakeTime()
    quota = MinuteQuota(None, 100, time.clock())
    first = quota.start(90, GO)
    assert first is not None
    quota.count(first, 5)
    quota.start(90, GO)
    assert time.seconds == 1_000.0


def test_a_request_larger_than_the_grant_goes_alone() -> None:
    time = FakeTime()
    quota = MinuteQuota(None, 100, time.clock())
    for _ in range(3):
        quota.start(500, GO)
    assert 1_120.0 <= time.seconds < 1_121.0


def test_a_pause_holds_all_requests_and_a_stop_releases_them() -> None:
    time, stop = FakeTime(), threading.Event()
    quota = MinuteQuota(None, None, time.clock())
    quota.pause(7.5)
    assert quota.start(1, stop) is not None
    assert time.seconds == 1_007.5
    stop.set()
    quota.pause(1e9)
    assert quota.start(1, stop) is None
    nap(1e9, time.clock(), stop)
    assert time.seconds == 1_007.5


def test_many_threads_keep_the_limit_together() -> None:
    time = FakeTime()
    quota = MinuteQuota(20, 1_000, time.clock())
    with ThreadPoolExecutor(8) as pool:
        sent = [s for s in pool.map(lambda i: quota.start(100 if i % 3 else 20, GO), range(200)) if s]
    assert len(sent) == 200
    most_requests, most_tokens = _most_in_a_window([(s.at, s.tokens) for s in sent])
    assert most_requests <= 20
    assert most_tokens <= 1_000


def test_a_run_keeps_to_its_services_limits(open_backend, fake_time: FakeTime) -> None:
    arrivals: list[tuple[float, int]] = []

    class Noting(FlakyServer):
        def next_fault(self) -> str | None:
            with self.lock:
                arrivals.append((fake_time.seconds, 11))  # 7 of the prompt, 4 new
            return None

    prompts = [f"Q: Who wrote book {i}? A:" for i in range(120)]
    with Noting() as server:
        backend = open_backend(
            server.base_url, requests_per_minute=30, tokens_per_minute=250, max_concurrency=3
        )
        backend.generate(prompts, GREEDY)
    # what arrives may be seen a nap later than it was sent
    windows = [[tokens for at, tokens in arrivals if start <= at < start + 59] for start, _ in arrivals]
    assert max(map(len, windows)) <= 30
    assert max(map(sum, windows)) <= 250
    assert fake_time.seconds - 1_000 < 120 * 60 / 10
