"""A service that asks a router before it answers: question, decision, prompt, a real OpenAI-compatible server, score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import requests

from longtail.router import Decision
from longtail.scoring.match import score_answer
from tests.longtail.generation.flaky_server import FlakyServer

Row = dict[str, Any]
Ask = Callable[..., list[str]]
"""Answers of the server to a prompt: one, or `n` samples from `seed` on."""


@dataclass
class Served:
    """How many questions were right, and for how many a passage was retrieved; `n_requests` that all of it took."""

    n_right: int = 0
    n_retrieved: int = 0
    n_requests: int = 0


def prompt_of(question: str, passage: str | None = None) -> str:
    return f"Q: {question} A:" if passage is None else f"Passage: {passage}\nQ: {question} A:"


def serve(
    asked: Sequence[Row], decide: Callable[[Row, Ask], Decision], reply: Callable[[str, int], str]
) -> Served:
    """Answer questions with `question` and `gold_answers`. `reply`: what the server's model says, by prompt and seed."""
    served = Served()
    with (
        FlakyServer(
            text=lambda prompt, sample: f" {reply(prompt, sample)}\nQ: more", forgets_keys=True
        ) as server,
        requests.Session() as session,
    ):

        def ask(prompt: str, **keys: int) -> list[str]:
            body = {"model": "large", "prompt": prompt, "max_tokens": 15, "temperature": 0, **keys}
            answered = session.post(f"{server.base_url}/completions", json=body, timeout=30).json()
            return [choice["text"].strip().split("\n")[0] for choice in answered["choices"]]

        for row in asked:
            decision = decide(row, ask)
            (text,) = ask(prompt_of(row["question"], "about it" if decision.retrieve else None))
            served.n_right += score_answer(text, row["gold_answers"]).is_correct
            served.n_retrieved += decision.retrieve
        served.n_requests = server.books.requests
    return served
