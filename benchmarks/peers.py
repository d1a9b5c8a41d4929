"""Common practice: the ways of generating and scoring that Longtail is compared with.

What belongs here: the peers, each written in the way of its users. What does not: Longtail, and timing.
"""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import requests

from dagster_project.core.generation.prompts.endings import cut_answer
from dagster_project.core.threads import thread_count

NEW_TOKENS = 15


class Transformers:
    """A causal model from a folder and its tokenizer, loaded by `from_pretrained`."""

    def __init__(self, folder: Path, device: str = "cpu", dtype: str = "float32") -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        load: Any = AutoModelForCausalLM.from_pretrained
        self.model = load(folder, dtype=getattr(torch, dtype)).to(device).eval()
        self._device = device

    def loop(self, prompts: Sequence[str]) -> list[str]:
        """The seed papers' loop: `generate`, one prompt at a time."""
        return [text for prompt in prompts for text in self._generate([prompt])]

    def batched(self, prompts: Sequence[str], size: int) -> list[str]:
        """`generate` on padded batches of `size`, prompts of similar length together."""
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
        found = [""] * len(prompts)
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            for row, text in zip(rows, self._generate([prompts[row] for row in rows]), strict=True):
                found[row] = text
        return found

    def continuous(self, prompts: Sequence[str]) -> list[str]:
        """transformers' own continuous batching. On a CPU it would fill most of the memory before the first token."""
        from transformers import ContinuousBatchingConfig, GenerationConfig

        is_on_cpu = self._device == "cpu"
        small = ContinuousBatchingConfig(num_blocks=64, max_batch_tokens=1_024) if is_on_cpu else None

        settings = GenerationConfig(
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
            eos_token_id=self.model.config.eos_token_id,
            pad_token_id=self.tokenizer.pad_token_id,
        )
        ids = self.tokenizer(list(prompts))["input_ids"]
        made = self.model.generate_batch(
            inputs=ids, generation_config=settings, continuous_batching_config=small
        )
        # requests are numbered in the order of their arrival
        outputs = [made[key] for key in sorted(made, key=lambda key: int(key.rsplit("_", 1)[-1]))]
        texts = self.tokenizer.batch_decode(
            [output.generated_tokens for output in outputs], skip_special_tokens=True
        )
        return [cut_answer(text) for text in texts]

    def score_each(self, prompts: Sequence[str], candidates: Sequence[str]) -> list[list[float]]:
        """Log-likelihood of each candidate after each prompt: one forward pass per pair."""
        return [[self._log_likelihood(prompt, candidate) for candidate in candidates] for prompt in prompts]

    def _generate(self, prompts: list[str]) -> list[str]:
        import torch

        inputs = self.tokenizer(prompts, return_tensors="pt", padding=True).to(self._device)
        with torch.inference_mode():
            output = self.model.generate(
                **inputs,
                max_new_tokens=NEW_TOKENS,
                do_sample=False,
                pad_token_id=self.tokenizer.pad_token_id,
            )
        texts = self.tokenizer.batch_decode(
            output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True
        )
        return [cut_answer(text) for text in texts]

    def _log_likelihood(self, prompt: str, candidate: str) -> float:
        import torch

        before = len(self.tokenizer(prompt)["input_ids"])
        ids = self.tokenizer(prompt + candidate, return_tensors="pt")["input_ids"].to(self._device)
        with torch.inference_mode():
            logits = self.model(ids).logits[0, before - 1 : -1].log_softmax(dim=-1)
        return float(logits.gather(1, ids[0, before:, None]).sum())


class Harness:
    """lm-evaluation-harness on the same model and prompts, as its users run it (`batch_size="auto"` if that fits)."""

    def __init__(self, folder: Path, device: str = "cpu", dtype: str = "float32", size: int = 64) -> None:
        from lm_eval.models.huggingface import HFLM

        self._model: Any = HFLM(pretrained=str(folder), device=device, dtype=dtype, batch_size=size)

    def answer(self, prompts: Sequence[str]) -> list[str]:
        """Greedy answers that end at a line break."""
        from lm_eval.api.instance import Instance

        asked = [
            Instance(
                "generate_until",
                {},
                (prompt, {"until": ["\n"], "max_gen_toks": NEW_TOKENS, "do_sample": False}),
                number,
            )
            for number, prompt in enumerate(prompts)
        ]
        return [cut_answer(text) for text in self._model.generate_until(asked, disable_tqdm=True)]


class LlamaServer:
    """llama.cpp's own server, asked over HTTP one prompt at a time: `llama-server` on the path, else llama-cpp-python's.

    Errors: `ImportError` where neither is installed.
    """

    def __init__(self, gguf: Path, context: int = 4096) -> None:
        port = _free_port()
        own = shutil.which("llama-server")
        if not own and importlib.util.find_spec("llama_cpp") is None:
            raise ImportError("neither llama-server nor llama-cpp-python[server] is installed")
        threads = str(thread_count())
        command = (
            [own, "-m", str(gguf), "-c", str(context), "-t", threads]
            if own
            else [
                sys.executable, "-m", "llama_cpp.server", "--model", str(gguf), "--n_ctx", str(context),
                "--n_threads", threads, "--n_threads_batch", threads,
            ]
        )  # fmt: skip
        self._server = subprocess.Popen(
            [*command, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._url = f"http://127.0.0.1:{port}/v1"
        self._wait()

    def answer(self, prompts: Sequence[str]) -> list[str]:
        """Greedy answers; the server keeps the keys and values of the prompt before."""
        return [cut_answer(self._complete(prompt)) for prompt in prompts]

    def close(self) -> None:
        """End the server."""
        self._server.terminate()
        self._server.wait()

    def _complete(self, prompt: str) -> str:
        asked = {"prompt": prompt, "max_tokens": NEW_TOKENS, "temperature": 0.0}
        answer = requests.post(f"{self._url}/completions", json=asked, timeout=600)
        answer.raise_for_status()
        return str(answer.json()["choices"][0]["text"])

    def _wait(self, seconds: float = 120.0) -> None:
        until = time.monotonic() + seconds
        while self._server.poll() is None and time.monotonic() < until:
            try:
                if requests.get(f"{self._url}/models", timeout=5).ok:
                    return
            except requests.RequestException:
                pass
            time.sleep(0.5)
        self._server.kill()
        raise ImportError("its server does not start")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
