"""Leases of GPUs between real processes, which are only names here; and oneDNN's linear layers, which give what PyTorch's
own give and are used only where they are meant to be."""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from longtail.errors import BackendError
from longtail.models import placement as devices
from longtail.models.placement import (
    LEAST_ROWS,
    Lease,
    is_onednn_faster,
    lease_all,
    lease_folder,
    lease_one,
    use_fastest,
)

ROOT = Path(__file__).resolve().parents[3]
GPUS = ["GPU-a", "GPU-b", "GPU-c"]
HOLD = """
import sys, time
from pathlib import Path
from longtail.models.placement import lease_all, lease_one
folder, want, *gpus = sys.argv[1:]
if want == "all":
    lease = lease_all(gpus, Path(folder), "other")
else:
    lease = lease_one(gpus, range(len(gpus)), Path(folder), "other")
print(*lease.positions, flush=True)
sys.stdin.readline()
"""


class Holder:
    """A process that takes a lease, says which, and keeps it until it is let go."""

    def __init__(self, folder: Path, want: str, gpus: list[str]) -> None:
        command = [sys.executable, "-c", HOLD, str(folder), want, *gpus]
        self.process = subprocess.Popen(
            command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def positions(self) -> list[int]:
        assert self.process.stdout is not None
        return [int(word) for word in self.process.stdout.readline().split()]

    def has_said(self, seconds: float) -> bool:
        """Whether it has its lease, looking for so long."""
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], seconds)[0])

    def let_go(self) -> None:
        self.process.communicate("\n", timeout=30)


@pytest.fixture
def holders(tmp_path: Path) -> Iterator[list[Holder]]:
    started: list[Holder] = []
    yield started
    for holder in started:
        holder.process.kill()
        holder.process.communicate(timeout=30)


def start(holders: list[Holder], folder: Path, want: str, gpus: list[str]) -> Holder:
    holders.append(Holder(folder, want, gpus))
    return holders[-1]


def test_a_process_that_finds_all_gpus_taken_waits_and_names_the_holders(
    holders: list[Holder], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = start(holders, tmp_path, "all", GPUS)
    assert sorted(first.positions()) == [0, 1, 2]

    def let_go(_record: logging.LogRecord) -> bool:
        first.let_go()
        return True

    caplog.handler.addFilter(let_go)  # as soon as it says that it waits
    try:
        with caplog.at_level(logging.INFO):
            mine = lease_one(GPUS, range(3), tmp_path, "mine")
    finally:
        caplog.handler.removeFilter(let_go)  # the handler is that of all tests
    assert first.process.wait(30) == 0
    assert caplog.messages == [f"mine: waiting for a GPU; held by process {first.process.pid} with other"]
    mine.release()


def test_a_lease_ends_with_its_process_also_after_a_kill(holders: list[Holder], tmp_path: Path) -> None:
    first = start(holders, tmp_path, "one", GPUS[:1])
    assert first.positions() == [0]
    os.kill(first.process.pid, signal.SIGKILL)
    lease_one(GPUS[:1], [0], tmp_path, "mine").release()


def test_a_numbered_device_waits_for_its_own_gpu(holders: list[Holder], tmp_path: Path) -> None:
    mine = lease_one(GPUS, [1], tmp_path, "mine")
    assert mine.positions == (1,)
    others = [start(holders, tmp_path, "one", GPUS) for _ in range(2)]
    assert sorted(position for holder in others for position in holder.positions()) == [0, 2]
    mine.release()
    last = start(holders, tmp_path, "one", GPUS)
    assert last.positions() == [1]


def test_processes_that_want_all_gpus_take_turns(holders: list[Holder], tmp_path: Path) -> None:
    # the same GPUs, visible in another order
    both = [start(holders, tmp_path, "all", gpus) for gpus in (GPUS, GPUS[::-1])]
    said, _, _ = select.select([holder.process.stdout for holder in both], [], [], 60)
    first, second = both if both[0].process.stdout in said else both[::-1]
    assert sorted(first.positions()) == [0, 1, 2]
    assert not second.has_said(1)
    first.let_go()
    assert sorted(second.positions()) == [0, 1, 2]


def test_a_process_shares_its_gpu_with_itself(holders: list[Holder], tmp_path: Path) -> None:
    first = lease_one(GPUS, [2], tmp_path, "one")
    second = lease_one(GPUS, range(3), tmp_path, "another")
    assert second.positions == (2,)
    first.release()
    other = start(holders, tmp_path, "one", GPUS[2:])
    assert not other.has_said(1)
    second.release()
    assert other.positions() == [0]


def test_a_failed_lease_of_all_gpus_holds_none(tmp_path: Path) -> None:
    (tmp_path / "gpu-GPU-b.lock").mkdir()
    with pytest.raises(BackendError, match="set LONGTAIL_LEASES to a folder"):
        lease_all(GPUS, tmp_path, "mine")
    assert not devices._HELD
    Lease().release()


def test_the_folder_of_leases_belongs_to_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LONGTAIL_LEASES", str(tmp_path / "shared"))
    assert lease_folder() == tmp_path / "shared"
    assert (tmp_path / "shared").stat().st_mode & 0o7777 == 0o1777
    assert lease_folder() == tmp_path / "shared"
    lease_one(["MIG-1/2 ü"], [0], lease_folder(), "mine").release()
    (file,) = (tmp_path / "shared").iterdir()
    assert file.stat().st_mode & 0o777 == 0o666


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("text")
    (tmp_path / "gpu-GPU-a.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(BackendError, match="no GPU can be leased"):
        lease_one(GPUS, [0], tmp_path, "mine")
    assert (tmp_path / "precious").read_text() == "text"


def test_without_cuda_there_are_no_gpus() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has GPUs")
    assert devices.visible_gpus() == []


needs_onednn = pytest.mark.skipif(
    not is_onednn_faster(), reason="this processor is Intel's, or PyTorch has no oneDNN"
)


def layers(dtype: torch.dtype = torch.float32) -> torch.nn.Sequential:
    torch.manual_seed(0)
    parts = torch.nn.Linear(48, 96), torch.nn.GELU(), torch.nn.Linear(96, 40, bias=False)
    return torch.nn.Sequential(*parts).to(dtype).eval()


@needs_onednn
@pytest.mark.parametrize("shape", [(0, 48), (1, 48), (LEAST_ROWS - 1, 48), (LEAST_ROWS, 48), (3, 50, 48)])
def test_outputs_are_equal_but_for_rounding(shape: tuple[int, ...]) -> None:
    plain, fast = layers(), use_fastest(layers())
    values = torch.randn(shape)
    with torch.inference_mode():
        torch.testing.assert_close(fast(values), plain(values), rtol=1e-5, atol=1e-6)
        turned = torch.randn(48, 70).T  # not contiguous
        torch.testing.assert_close(fast(turned), plain(turned), rtol=1e-5, atol=1e-6)


@needs_onednn
def test_other_number_formats_are_left_alone() -> None:
    model = use_fastest(layers(torch.bfloat16))
    assert not any("forward" in vars(layer) for layer in model.modules())


@pytest.mark.parametrize(
    ("text", "maker"),
    [("processor\t: 0\nvendor_id\t: AuthenticAMD\n", "AuthenticAMD"), ("processor: 0\nBogoMIPS: 50\n", "")],
)
def test_the_maker_is_read(text: str, maker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo").write_text(text, encoding="utf-8")
    monkeypatch.setattr(devices, "_CPUINFO", tmp_path / "cpuinfo")
    assert devices.cpu_info("vendor_id") == maker
