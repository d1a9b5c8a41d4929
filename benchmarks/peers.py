"""Common practice: the ways of generating and scoring that Longtail is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from longtail.generation.prompts.endings import cut_answer
from longtail.threads import thread_count

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
                **inputs, max_new_tokens=NEW_TOKENS, do_sample=False, pad_token_id=self.tokenizer.pad_token_id
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


class LlamaCpp:
    """llama.cpp in this process, by package xllamacpp; it keeps the keys and values of the prompt before.

    Errors: `ImportError` where it is not installed.
    """

    def __init__(self, gguf: Path, context: int = 4096) -> None:
        import xllamacpp

        asked = xllamacpp.CommonParams()
        asked.model.path, asked.n_ctx, asked.n_parallel = str(gguf), context, 1
        for threads in (asked.cpuparams, asked.cpuparams_batch):
            threads.n_threads, threads.poll = thread_count(), 0  # threads that wait take no processor time
        self._server: Any = xllamacpp.Server(asked)

    def answer(self, prompts: Sequence[str]) -> list[str]:
        """Greedy answers that end at a line break."""
        return [cut_answer(self._complete(prompt)) for prompt in prompts]

    def _complete(self, prompt: str) -> str:
        asked = {"prompt": prompt, "max_tokens": NEW_TOKENS, "temperature": 0.0, "stop": ["\n"]}
        return str(self._server.handle_completions(asked)["choices"][0]["text"])
