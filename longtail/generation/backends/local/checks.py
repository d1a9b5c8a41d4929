"""Whether a way of running a model in batches gives what the model gives by its plain forward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from longtail.generation.backends.local.stepper import Stepper
from longtail.models.limits import first_line, is_out_of_memory

if TYPE_CHECKING:
    import torch

TOLERANCE = 0.01
LOW_PRECISION_TOLERANCE = 0.3
"""How far the logits of a batch may be from those of one sequence alone: the root mean square over the vocabulary,
as a share of their standard deviation. Logits after other tokens are about 1.4 away. Measured in float32: 1e-6;
with 16 bits and less, rounding alone depends on the batch.
"""
_MAX_DRAWN = 1 << 15


def find_difference(
    model: Any,
    open_batch: Callable[[Sequence[Sequence[int]]], Stepper],
    run_alone: Callable[[list[int], list[int]], torch.Tensor],
    lengths: tuple[int, int] = (5, 9),
    n_shared: int = 0,
) -> str:
    """Why two prompts of these lengths, the second forked, do not give what they give alone; empty if they do.

    Both begin with `n_shared` more tokens. `run_alone` takes a prompt and the tokens after it, and gives logits
    (1, vocabulary). Out of memory is raised.
    """
    import torch

    drawn = torch.Generator().manual_seed(0)
    size = min(model.get_input_embeddings().weight.shape[0], _MAX_DRAWN)
    shared = torch.randint(size, (n_shared,), generator=drawn).tolist()
    prompts = [[*shared, *torch.randint(size, (n,), generator=drawn).tolist()] for n in lengths]
    one, two, three, four = torch.randint(size, (4,), generator=drawn).tolist()
    try:
        with torch.inference_mode():
            batch = open_batch(prompts)
            # a state of each prompt; the second forks; the first is done, and the second's forks change places
            found = [
                batch.start(),
                batch.step([0, 1, 1], [one, two, three]),
                batch.step([1, 2], [three, four]),
            ]
            states = [
                (0, []),
                (1, []),
                (0, [one]),
                (1, [two]),
                (1, [three]),
                (1, [two, three]),
                (1, [three, four]),
            ]
            alone = [run_alone(prompts[prompt], tokens) for prompt, tokens in states]
    except Exception as error:  # whatever a model's code raises on what it does not know
        if is_out_of_memory(error):
            raise
        return first_line(error)
    return _difference(torch.cat(found), torch.cat(alone), allowed_distance(model))


def allowed_distance(model: Any) -> float:
    """The tolerance for a model of this precision."""
    import torch

    is_exact = model.dtype == torch.float32 and not getattr(model, "is_quantized", False)
    return TOLERANCE if is_exact else LOW_PRECISION_TOLERANCE


def _difference(found: torch.Tensor, expected: torch.Tensor, allowed: float) -> str:
    distance = ((found - expected).square().mean(dim=1).sqrt() / expected.std(dim=1).clamp(min=1e-6)).max()
    return "" if distance <= allowed else f"its logits differ by {distance:.2g} of their spread"
