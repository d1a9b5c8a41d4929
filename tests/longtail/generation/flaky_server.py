"""A real OpenAI-compatible server on 127.0.0.1 that misbehaves as told, and keeps its books: who bought what.

A purchase is billed once per Idempotency-Key (unless it `forgets_keys`). Tokens are words. Faults come from `rates`
(a seeded draw a request) or from `script` (the n-th request's fault); a prompt that contains `REFUSE` is answered
400, one that contains `WITHHOLD` by the content filter. `reply` changes an answer before it is sold.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REFUSE = "REFUSE THIS"
WITHHOLD = "WITHHOLD THIS"
FAULTS = (
    "drop_before", "drop_after", "half_body", "limit", "limit_date", "limit_bare", "error_500", "error_502",
    "error_503", "conflict", "error_in_200", "web_page", "broken_json", "no_choices", "fewer", "more", "no_usage",
    "shuffled",
)  # fmt: skip


def words(prompt: str, sample: int) -> str:
    """The text that the server's model generates: two words from a hash, then a second line."""
    digest = hashlib.sha256(f"{sample} {prompt}".encode("utf-8", "surrogatepass")).hexdigest()
    return f" {digest[:4]} {digest[4:8]}\nQ: more"


@dataclass
class Books:
    """What has been sold. `sold` counts billed requests by prompt and sample seed, `tokens` is their sum."""

    requests: int = 0
    most_at_once: int = 0
    prompt_tokens: int = 0
    new_tokens: int = 0
    sold: Counter[tuple[str, int | None]] = field(default_factory=Counter)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)


class FlakyServer:
    """A context manager; `base_url` is what a study's service names."""

    def __init__(
        self,
        *,
        seed: int = 0,
        rates: Mapping[str, float] | None = None,
        script: Sequence[str | None] = (),
        key: str | None = None,
        forgets_keys: bool = False,
        seconds: float = 0.0,
        text: Callable[[str, int], str] = words,
        reply: Callable[[dict[str, Any], str], object] = lambda answer, prompt: None,
    ) -> None:
        self.books, self.script, self.rates = Books(), list(script), dict(rates or {})
        self.key, self.forgets_keys = key, forgets_keys
        self.seconds, self.text, self.reply = seconds, text, reply
        self.lock = threading.Lock()
        self.answers: dict[str, dict[str, Any]] = {}
        self._random = random.Random(seed)
        self._running = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"owner": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> FlakyServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def usd(self, prompt_usd_per_million: float, completion_usd_per_million: float) -> float:
        """What the books' tokens cost."""
        return (
            self.books.prompt_tokens * prompt_usd_per_million
            + self.books.new_tokens * completion_usd_per_million
        ) / 1e6

    def next_fault(self) -> str | None:
        with self.lock:
            number = self.books.requests
            self.books.requests += 1
            drawn = self.script[number] if number < len(self.script) else None
            for name, rate in self.rates.items():
                if drawn is None and self._random.random() < rate:
                    drawn = name
            if drawn:
                self.books.faults[drawn] += 1
            return drawn

    def began(self) -> None:
        with self.lock:
            self._running += 1
            self.books.most_at_once = max(self.books.most_at_once, self._running)

    def ended(self) -> None:
        with self.lock:
            self._running -= 1

    def buy(self, body: dict[str, Any], prompt: str, key: str, fault: str | None) -> dict[str, Any]:
        """The answer; billed where it is not an earlier one."""
        with self.lock:
            if key in self.answers and not self.forgets_keys:
                return self.answers[key]
            n = body.get("n", 1)
            given = {"fewer": max(1, n - 2), "more": n + 2}.get(fault or "", n)
            seed = body.get("seed")
            texts = [self.text(prompt, (seed or 0) + i) for i in range(given)]
            usage = {"prompt_tokens": len(prompt.split()) + 1}
            usage["completion_tokens"] = sum(min(len(text.split()), body["max_tokens"]) for text in texts)
            usage["prompt_tokens_details"] = {"cached_tokens": usage["prompt_tokens"] // 2}
            self.books.prompt_tokens += usage["prompt_tokens"]
            self.books.new_tokens += usage["completion_tokens"]
            self.books.sold[(prompt, seed)] += 1
            reason = "content_filter" if WITHHOLD in prompt else "stop"
            choices = [_choice(i, text, reason, "messages" in body) for i, text in enumerate(texts)]
            if body.get("logprobs"):
                for choice, text in zip(choices, texts, strict=True):
                    choice["logprobs"] = _log_probabilities(text, "messages" in body)
            if fault == "shuffled":
                choices.reverse()
            answer = {"id": f"a-{len(self.answers)}", "model": body["model"], "choices": choices}
            if fault != "no_usage":
                answer["usage"] = usage
            self.reply(answer, prompt)
            self.answers[key] = answer
            return answer


def _choice(index: int, text: str, reason: str, is_chat: bool) -> dict[str, Any]:
    content = {"message": {"role": "assistant", "content": text}} if is_chat else {"text": text}
    return {"index": index, "finish_reason": reason, **content}


def _log_probabilities(text: str, is_chat: bool) -> dict[str, Any]:
    """Each word is a token, the end token follows: the n-th has probability 1/(n + 2), and the second is half of it."""
    tokens = [*re.findall(r"\s*\S+", text), "</s>"]
    logs = [-math.log(n + 2) for n in range(len(tokens))]
    tops = [{token: log, "?": log - math.log(2)} for token, log in zip(tokens, logs, strict=True)]
    if not is_chat:
        return {"tokens": tokens, "token_logprobs": logs, "top_logprobs": tops}
    content = [
        {
            "token": token,
            "logprob": log,
            "top_logprobs": [{"token": t, "logprob": own} for t, own in top.items()],
        }
        for token, log, top in zip(tokens, logs, tops, strict=True)
    ]
    return {"content": content}


class _Handler(BaseHTTPRequestHandler):
    owner: FlakyServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        self.owner.began()
        try:
            self._serve()
        finally:
            self.owner.ended()

    def _serve(self) -> None:
        owner = self.owner
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with owner.lock:
            owner.books.bodies.append(body)
            owner.books.headers.append(dict(self.headers))
        if owner.key is not None and self.headers.get("Authorization") != f"Bearer {owner.key}":
            message = f"Incorrect API key provided: {self.headers.get('Authorization')}"
            return self._error(401, message, "invalid_api_key")
        fault = owner.next_fault()
        time.sleep(owner.seconds)
        prompt = body["prompt"] if "prompt" in body else body["messages"][0]["content"]
        if REFUSE in prompt:
            return self._error(
                400, f"context too long for {self.headers.get('Authorization')}: {prompt}", None
            )
        if fault and self._fails_unbilled(fault):
            return None
        whole = json.dumps(owner.buy(body, prompt, self.headers["Idempotency-Key"], fault)).encode()
        if fault == "drop_after":
            return self._drop()
        if fault == "error_502":
            return self._error(502, "bad gateway", None)
        cut = {"web_page": b"<html>busy</html>", "broken_json": whole[: len(whole) // 2], "no_choices": b"{}"}
        self._send(200, cut.get(fault or "", whole), {}, is_cut=fault == "half_body")
        return None

    def _fails_unbilled(self, fault: str) -> bool:
        if fault == "drop_before":
            self._drop()
        elif fault in ("error_500", "error_503", "conflict"):
            self._error({"error_500": 500, "error_503": 503, "conflict": 409}[fault], "not now", None)
        elif fault == "limit":
            self._error(429, "too many requests", "rate_limit", {"Retry-After": "2"})
        elif fault == "limit_date":
            at = formatdate(time.time() + 3, usegmt=True)
            self._error(429, "too many requests", "rate_limit", {"Retry-After": at})
        elif fault == "limit_bare":
            self._error(429, "too many requests", "rate_limit")
        elif fault == "error_in_200":
            self._send(200, b'{"error": {"message": "upstream is busy", "code": 503}}', {})
        elif fault.startswith("status_"):
            self._error(
                int(fault.removeprefix("status_")), "no", None, {"Location": "http://elsewhere.example/v1"}
            )
        elif fault.startswith("wait_"):
            self._error(429, "too many requests", None, {"Retry-After": fault.removeprefix("wait_")})
        elif fault.startswith("code_"):
            self._error(429, "quota", fault.removeprefix("code_"))
        else:
            return False
        return True

    def _error(
        self, status: int, message: str, code: str | None, headers: Mapping[str, str] | None = None
    ) -> None:
        error = {"error": {"message": message, "code": code, "type": "error"}}
        self._send(status, json.dumps(error).encode(), headers or {})

    def _send(self, status: int, content: bytes, headers: Mapping[str, str], is_cut: bool = False) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        given = content[: len(content) // 2] if is_cut else content
        self.wfile.write(given)
        if is_cut:
            self._drop()

    def _drop(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(2)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: tests read the log."""
