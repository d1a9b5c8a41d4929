"""Limiters of one process and of all processes of an instance: pace, slots, pauses, and processes killed with -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from longtail.errors import SourceError
from longtail.storage.home import PROJECT_ROOT
from longtail.transfer import limits
from longtail.transfer.client import HttpClient
from longtail.transfer.limits import ENTITY_API, SharedLimiter
from tests import faults


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


API = "/w/api.php"
PARAMS = {"action": "wbgetentities", "format": "json", "ids": "Q9000000001"}


@pytest.mark.parametrize(
    ("ban", "seconds", "says"),
    [
        (faults.Fault(403, b"You are <b>banned</b> until you slow down"), 900, "no request is sent for 15 minutes"),
        (faults.Fault(403, b"no", headers={"Retry-After": "7200"}), 7200, "no request is sent for 120 minutes"),
        (faults.too_many("86400"), 86_400, "asked to wait 86400 s: run again after that"),
    ],
)  # fmt: skip
def test_a_ban_holds_every_process(
    server, fake_time, tmp_path: Path, ban: faults.Fault, seconds: int, says: str
) -> None:
    server.faults.add(API, ban)

    def ask() -> None:
        with HttpClient(clock=fake_time.clock(), limits=tmp_path, limits_loopback=True) as client:
            client.get_json(ENTITY_API, server.base_url + API, PARAMS)

    with pytest.raises(SourceError, match=rf"answered {ban.status} .*{says}"):
        ask()
    with pytest.raises(SourceError, match="asked us to pause"):
        ask()  # another client, as in another process
    assert len(server.requests) == 1
    fake_time.sleep(seconds + 1)
    ask()
    assert len(server.requests) == 2


def test_processes_share_their_slots_and_a_killed_one_gives_its_slot_back(tmp_path: Path, fake_time) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from longtail.transfer.limits import SharedLimiter\n"
        "with SharedLimiter(Path(sys.argv[1]), 'queries', 0.0, 2).slot():\n"
        "    print('held', flush=True); time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], cwd=PROJECT_ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    entered = threading.Event()

    def enter() -> None:
        with SharedLimiter(tmp_path, "queries", 0.0, 2).slot():
            entered.set()

    with SharedLimiter(tmp_path, "queries", 0.0, 2).slot():  # the other of the two
        waiting = threading.Thread(target=enter)
        waiting.start()
        assert not entered.wait(0.3)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert entered.wait(5)
        waiting.join()


def test_two_limiters_of_one_folder_take_turns(tmp_path: Path, fake_time) -> None:
    """As two processes would: they share only the files."""
    one, two = (SharedLimiter(tmp_path, "operator", 0.3, 3, fake_time.clock()) for _ in range(2))
    starts = []
    for number in range(201):
        with (one, two)[number % 2].slot():
            starts.append(fake_time.seconds)
    assert starts[200] - starts[0] >= 60 - 1e-6
    assert all(after - before >= 0.3 - 1e-9 for before, after in pairwise(starts))
    other = SharedLimiter(tmp_path, "queries", 0.3, 1, fake_time.clock())
    with other.slot():
        assert fake_time.seconds == starts[-1]


def test_a_pause_holds_every_process_and_outlives_the_process_that_began_it(
    tmp_path: Path, fake_time
) -> None:
    SharedLimiter(tmp_path, "operator", 0.0, 3, fake_time.clock()).pause(12.0)
    later = SharedLimiter(tmp_path, "operator", 0.0, 3, fake_time.clock())
    assert later.pause_left_s() == 12.0
    later.pause(5.0)
    with later.slot():
        assert fake_time.seconds == 1_012.0
    assert later.pause_left_s() == 0.0


def test_a_clock_set_back_does_not_hold_requests_for_ever(tmp_path: Path, fake_time) -> None:
    fake_time.seconds = 4e9
    ahead = SharedLimiter(tmp_path, "operator", 0.3, 3, fake_time.clock())
    ahead.pause(100.0)
    with ahead.slot():
        pass
    fake_time.seconds, before = 1_000.0, len(fake_time.sleeps)
    with ahead.slot():
        pass
    assert sum(fake_time.sleeps[before:]) < 1
    (tmp_path / "operator.state").write_bytes(b"torn")
    with ahead.slot():
        pass


@pytest.mark.parametrize("seconds", [30 * 86_400.0, float("inf")])
def test_an_endless_pause_lasts_a_week(tmp_path: Path, fake_time, seconds: float) -> None:
    SharedLimiter(tmp_path, "operator", 0.3, 3, fake_time.clock()).pause(seconds)
    fake_time.seconds += 5
    assert SharedLimiter(tmp_path, "operator", 0.3, 3, fake_time.clock()).pause_left_s() > 6 * 86_400


def test_refusals_in_a_row_are_counted_over_all_processes(tmp_path: Path, fake_time) -> None:
    one, two = (SharedLimiter(tmp_path, "operator", 0.3, 3, fake_time.clock()) for _ in range(2))
    assert [one.count_refusal(), two.count_refusal(), one.count_refusal()] == [1, 2, 3]
    two.clear_refusals()
    assert one.count_refusal() == 1
