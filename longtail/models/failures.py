"""What errors of torch and transformers mean: whether memory ran out, and one line for people."""

from __future__ import annotations

_OUT_OF_MEMORY = ("allocate memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""Messages of the CPU's allocator, of CUDA and of its libraries, which raise errors of general kinds."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a device or the machine had too little memory."""
    import torch

    text = str(error)
    said = any(words in text for words in _OUT_OF_MEMORY)
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or said


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its kind where it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
