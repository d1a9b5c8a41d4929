"""oneDNN's linear layers give what PyTorch's own give, and are used only where they are meant to be."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from longtail.models import linear_layers
from longtail.models.linear_layers import LEAST_ROWS, is_onednn_faster, use_fastest

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
    monkeypatch.setattr(linear_layers, "_CPUINFO", tmp_path / "cpuinfo")
    assert linear_layers.cpu_info("vendor_id") == maker
