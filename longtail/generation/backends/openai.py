"""Backend `openai`: any server with an OpenAI-compatible HTTP API (vLLM, SGLang, llama.cpp, hosted services).

Each row is a request of its own. So `batch_size` counts the texts of one request: 1 for greedy text, else the samples
of the row. `latency_ms` is the request's time divided by that number; waiting for a turn or for another attempt is not
in it. New tokens are as billed, which may include the end token. The first of n samples bears the prompt's cost; for
the others the prompt counts as shared. Tokens that the service had in its own cache count as shared too, but at full
price, as the table has no prices of cached tokens.

SPEC §3 asks for the whole distribution (top_p 1, no top_k). These APIs have no field for top_k or a repetition
penalty; vLLM takes them from the model's generation_config.json unless started with `--generation-config vllm`.

The same request always carries the same `Idempotency-Key`, in another run also. A service that heeds it bills no row
twice. Another service may bill a request twice, but only where its answer was lost on the way.

Until the service has answered once, one row goes at a time: a wrong key, path or price then shows in one request, not
in as many as may run at once.
"""

from __future__ import annotations

import hashlib
import logging
import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from typing import TypeGuard

from longtail.errors import BackendError
from longtail.generation.backends.base import (
    Decoding,
    Failure,
    Generation,
    Identity,
    Postponed,
    Scored,
    Secret,
    Usage,
)
from longtail.generation.backends.service.billing import (
    Bound,
    Budget,
    Purchase,
    bound,
    count_tokens,
    exact_usd,
    generations,
)
from longtail.generation.backends.service.connection import Connection, MinuteQuota, nap
from longtail.generation.backends.service.wire import (
    PATHS,
    Again,
    Answer,
    Answered,
    Fatal,
    Interpreter,
    Meaning,
    Post,
    Redactor,
    Refused,
    idempotency_key,
)
from longtail.storage.fingerprints import prompt_hash
from longtail.study.backends import GENERATE, SAMPLE, STREAM
from longtail.study.models import Model, Service
from longtail.study.prices import Price, price_on
from longtail.transfer.http import Clock, RetryPolicy

_LOG = logging.getLogger(__name__)
_MOST_REFUSED = 20
"""This many refusals before any answer concern the requests, not their rows."""
_ATTEMPTS_AT_ADDRESS = 3
"""Attempts to connect where nothing has answered yet: the address may be wrong, or the server not started."""
_LONGEST_WAIT_AT_FIRST_S = 2.0
"""A service that has never answered, and does not say that it is busy, is more likely broken than flaky."""
_ROWS_ALIKE = 50
"""This many rows, each with samples that are all the same, are more than chance."""
_MOST_UNANSWERED = 3
"""This many rows in succession whose attempts are used up mean that the service is down."""
NO_BUDGET = "the budget may not suffice for it: raise max_cost_usd, or go on with a next run"
STOPPED = "the run was stopped before it was asked"
Result = list[Generation] | Failure | Postponed
_API_VERSION = "v1"
_POLICY = RetryPolicy(attempts=8, read_s=120.0, answer_s=180.0)


@dataclass
class Call:
    """What the rows of one call share."""

    decoding: Decoding
    price: Price | None
    budget: Budget
    is_resumed: bool = False
    stop: threading.Event = field(default_factory=threading.Event)


class OpenAIBackend:
    """Asks a service, in several threads; constructing it sends nothing. What it learns of the service stays with it.

    Errors: `BackendError` where the key is missing.
    """

    capabilities = frozenset({GENERATE, SAMPLE, STREAM})

    def __init__(
        self,
        model: Model,
        secret: Secret = os.environ.get,
        *,
        policy: RetryPolicy = _POLICY,
        clock: Clock | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        service, clock = _service(model), clock or Clock()
        key = _key(model, service, secret)
        self.identity = self.identify(model)
        self._model, self._service = model, service
        self._redactor = Redactor(key)
        source = f", key from {service.api_key_env}" if service.api_key_env else ""
        self._who = f"model {model.name} (service {self._redactor.message(service.base_url)}{source})"
        url = service.base_url.rstrip("/") + PATHS[service.api]
        self._connection = Connection(url, key, self._redactor, policy, clock)
        self._interpreter = Interpreter(model, service, self._redactor)
        self._quota = MinuteQuota(service.requests_per_minute, service.tokens_per_minute, clock)
        self._policy, self._clock, self._jitter = policy, clock, jitter
        self._pool = ThreadPoolExecutor(service.max_concurrency, thread_name_prefix=f"ask-{model.name}")
        self._budgets: list[Budget] = []
        self._lock = threading.Lock()  # of what is learnt of the server, by whichever thread
        self._has_answered = False
        self._refused = 0
        self._unanswered = 0
        self._n_sampled = 0
        self._has_varied = False
        self._excess = Fraction(1)
        self._warnings: set[str] = set()

    @staticmethod
    def identify(model: Model) -> Identity:
        """Where the service is and what it is asked for; nothing is sent, and the key is no part of it.

        A service does not say which weights it serves: `Model.revision` and the declared dtype and quantisation
        stand for them, and changing one of them makes rows new.
        """
        service = _service(model)
        parts = ("openai", service.base_url.rstrip("/"), service.api, model.path, model.revision or "")
        revision = hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
        greedy = "log_probabilities" if service.log_probabilities else ""
        engine = f"openai-{service.api}"
        return Identity(revision, model.dtype, model.quantisation, engine, _API_VERSION, greedy_rules=greedy)

    @property
    def spent_usd(self) -> float:
        """The cost of this backend's calls so far: rows, billed failures, and the most that lost answers can have cost.

        A partition's next call may cost the limit less the growth of this number since the partition began.
        """
        return float(sum((budget.settled + budget.open for budget in self._budgets), Fraction(0)))

    def generate(self, prompts: Sequence[str], decoding: Decoding) -> list[Generation | Failure]:
        results = self._collect(prompts, decoding, None)
        return [result if isinstance(result, Failure) else result[0] for result in results]

    def sample(
        self, prompts: Sequence[str], decoding: Decoding, seeds: Sequence[Sequence[int]]
    ) -> list[list[Generation] | Failure]:
        """One text per seed. Each prompt is one request with its first seed: the service spreads it over the samples."""
        return self._collect(prompts, decoding, seeds)

    def score(self, prompts: Sequence[str], candidates: Sequence[Sequence[str]]) -> list[Scored | Failure]:
        """Not offered by these services."""
        raise BackendError(f"model {self._model.name}: backend openai cannot score")

    def stream(
        self,
        prompts: Sequence[str],
        decoding: Decoding,
        seeds: Sequence[Sequence[int]] | None,
        *,
        names: Sequence[str],
        budget_usd: float | None,
        is_resumed: bool = False,
    ) -> Iterator[tuple[int, Result]]:
        """Each row's result as soon as it is there. `prompts` may be built lazily: each is taken once.

        A single row that cannot be asked is a `Failure`. Where no row can be asked, the results under way still come,
        then `BackendError`. If the first rows are all refused, that counts as such a case unless the call
        `is_resumed`. Closing the iterator early waits for the requests under way, whose answers are lost.
        """
        call = Call(decoding, price_on(self._model, date.today()), Budget(budget_usd), is_resumed)
        if budget_usd is not None and call.price is None:
            raise BackendError(
                f"model {self._model.name}: max_cost_usd needs a price, and none is known for {self._model.path}:"
                " set service.prompt_usd_per_million and service.completion_usd_per_million (nothing was sent)"
            )
        asked = [[None]] * len(prompts) if seeds is None else seeds
        self._budgets.append(call.budget)
        return self._dispatch(prompts, asked, names, call)

    def forget(self) -> None:
        """Nothing is kept here between calls; the service may keep what it likes."""

    def usage(self) -> Usage:
        """The device is the service's own; the memory is this process's."""
        return Usage("service")

    def close(self) -> None:
        """Wait for requests under way, and close the connections."""
        self._pool.shutdown(cancel_futures=True)
        self._connection.close()

    def _dispatch(
        self, prompts: Sequence[str], seeds: Sequence[Sequence[int | None]], names: Sequence[str], call: Call
    ) -> Iterator[tuple[int, Result]]:
        """Each row's index and result; prompts are taken one by one, each once.

        Errors: `BackendError` once all that was under way has been handed on. The same holds for Ctrl-C and an
        ended run, as the requests under way are paid for. A second Ctrl-C ends at once.
        """
        flying: dict[Future[Result], int] = {}
        end: BaseException | None = None
        waiting = ((i, self._post(prompts[i], seeds[i], call)) for i in range(len(prompts)))
        head = next(waiting, None)
        try:
            while flying or (head and end is None):
                width = self._service.max_concurrency if self._has_answered else 1
                while head and end is None and len(flying) < width:
                    index, post = head
                    if not post.n:
                        yield index, []
                    elif (purchase := self._purchase(post, call)).set_aside():
                        row = post.prompt, seeds[index], names[index]
                        flying[self._pool.submit(self._ask, *row, call, purchase)] = index
                    elif flying:
                        break  # what is under way may cost less than was set aside for it
                    else:
                        yield index, Postponed(NO_BUDGET)
                    head = next(waiting, None)
                try:
                    done = wait(flying, return_when=FIRST_COMPLETED).done
                except BaseException as interruption:
                    if end is not None:
                        raise
                    end = interruption
                    call.stop.set()
                    continue
                for future in done:
                    index, failed = flying.pop(future), future.exception()
                    if failed is None:
                        yield index, future.result()
                    else:
                        end = end or failed
                        call.stop.set()
        finally:
            call.stop.set()
            wait(flying)
        if end is not None:
            raise end

    def _collect(
        self, prompts: Sequence[str], decoding: Decoding, seeds: Sequence[Sequence[int]] | None
    ) -> list[list[Generation] | Failure]:
        """The results of a call without a budget, in order."""
        samples = seeds or [()] * len(prompts)
        names = [f"{prompt_hash(p)} {decoding.key} {list(s)}" for p, s in zip(prompts, samples, strict=True)]
        results: dict[int, list[Generation] | Failure] = {}
        for index, result in self.stream(prompts, decoding, seeds, names=names, budget_usd=None):
            if not isinstance(result, list | Failure):
                raise BackendError(f"model {self._model.name}: {result.reason}")
            results[index] = result
        return [results[index] for index in range(len(prompts))]

    def _purchase(self, post: Post, call: Call) -> Purchase:
        """The money for a request: the most that it may cost, as far as the service has kept to what was asked."""
        return Purchase(call.budget, self._excess * bound(post, self._service.api, call.price).usd)

    def _post(self, prompt: str, seeds: Sequence[int | None], call: Call) -> Post:
        """The request for one text per seed: the service spreads the first seed over the samples."""
        return Post(
            prompt, call.decoding, len(seeds), next(iter(seeds), None), self._service.log_probabilities
        )

    def _ask(
        self, prompt: str, seeds: Sequence[int | None], name: str, call: Call, purchase: Purchase
    ) -> Result:
        """One text per seed (None alone: one greedy text). `purchase` is the first request's, its money set aside.

        Where a server gives fewer texts than asked, further requests ask for the missing ones and pay for the prompt
        again. Each brings at least one text, which bounds their number. Where one of them fails, so does the row. When
        the row is asked again, the texts already paid for come again by their Idempotency-Key.
        Errors: `BackendError` where no row can be asked.
        """
        texts: list[Generation] = []
        while len(texts) < len(seeds):
            first = len(texts)
            post = self._post(prompt, seeds[first:], call)
            key = f"{name} {first}"
            outcome = self._answer(post, key, call, self._purchase(post, call) if first else purchase)
            if not isinstance(outcome, list):
                return outcome
            texts += outcome
        self._compare(texts)
        return texts

    def _answer(self, post: Post, name: str, call: Call, purchase: Purchase) -> Result:
        body = post.body(self._model.path, self._service.api)
        key = idempotency_key(name, self._connection.url, body)
        most = bound(post, self._service.api, call.price)
        try:
            for number in range(1, self._policy.attempts + 1):
                if not purchase.set_aside(wait=True):
                    return Postponed(NO_BUDGET)
                meaning = self._attempt(body, key, most, call.stop)
                if isinstance(meaning, Answered):
                    purchase.settle(self._learn(meaning.answer, most, call.price))
                    return generations(meaning, most, call.price, self._redactor, call.decoding.end)
                if isinstance(meaning, Again) and meaning.may_be_billed:
                    purchase.leave_open()
                if not self._is_worth_another(meaning, number):
                    purchase.settle()
                    return self._give_up(meaning, number, call)
                self._wait(meaning, number, call.stop)
            raise AssertionError("a policy allows at least one attempt")
        finally:
            purchase.leave_open()  # where something unforeseen ended the asking

    def _attempt(self, body: bytes, key: str, most: Bound, stop: threading.Event) -> Meaning | None:
        """What one request brings; None where the run was stopped before it was sent."""
        sending = self._quota.start(most.tokens, stop)
        if sending is None:
            return None
        reply = self._connection.post(body, key)
        meaning = reply if isinstance(reply, Again) else self._interpreter.meaning(reply, self._clock.now())
        if isinstance(meaning, Answered):
            self._quota.count(sending, sum(count_tokens(meaning.answer, most)))
        elif not (isinstance(meaning, Again) and meaning.may_be_billed):
            self._quota.count(sending, 0)
        return meaning

    def _learn(self, answer: Answer, most: Bound, price: Price | None) -> Fraction:
        """The bill of an answer; a service that exceeds what was asked for is expected to do so again.

        The log hears once of each way in which the service departs from what was asked for.
        """
        billed = exact_usd(price, *count_tokens(answer, most))
        with self._lock:
            self._has_answered = True
            self._unanswered = 0
            if billed > most.usd:
                self._excess = max(self._excess, billed / most.usd)
                self._warn_once("bills more than was asked for: later requests set more of the budget aside")
            if answer.model is not None and answer.model != self._model.path:
                named = self._redactor.message(answer.model)
                self._warn_once(
                    f"says that it answers by model {named!r}, where {self._model.path!r} was asked for"
                )
            if answer.prompt_tokens is None or answer.new_tokens is None:
                self._warn_once(
                    "reports no usage: tokens and costs are upper bounds (one token a byte of the prompt)"
                )
        return billed

    def _compare(self, samples: Sequence[Generation]) -> None:
        """Some servers ignore temperature, or give all samples the same seed: certainty would be a false 1."""
        if len(samples) < 2:
            return
        with self._lock:
            self._n_sampled += 1
            self._has_varied |= len({sample.text for sample in samples}) > 1
            if self._n_sampled == _ROWS_ALIKE and not self._has_varied:
                self._warn_once(
                    f"gave the same text for all samples of each of {_ROWS_ALIKE} prompts: does it heed temperature"
                    " and seed?"
                )

    def _is_worth_another(self, meaning: Meaning | None, number: int) -> TypeGuard[Again]:
        if not isinstance(meaning, Again) or (meaning.wait_s or 0.0) > self._policy.longest_wait_s:
            return False
        is_wrong_address = meaning.is_unmet and not self._has_answered and number >= _ATTEMPTS_AT_ADDRESS
        return number < self._policy.attempts and not is_wrong_address

    def _give_up(
        self, meaning: Again | Refused | Fatal | None, number: int, call: Call
    ) -> Failure | Postponed:
        """The row's result. Errors: `BackendError` where the reply concerns all rows."""
        if meaning is None:
            return Postponed(STOPPED)
        if isinstance(meaning, Again):
            return self._note_silence(meaning, number)
        if isinstance(meaning, Refused):
            return self._note_refusal(meaning, call)
        raise BackendError(f"{self._who} {meaning.what}")

    def _note_refusal(self, refused: Refused, call: Call) -> Failure:
        with self._lock:
            self._unanswered = 0
            self._refused += 1
            is_known = self._has_answered or call.is_resumed
            if not is_known and self._refused >= _MOST_REFUSED:
                raise BackendError(
                    f"{self._who} refused the first {_MOST_REFUSED} rows alike, last: it {refused.what}; check api,"
                    " path and the length of the prompts"
                )
        return Failure(f"the service {refused.what}")

    def _note_silence(self, again: Again, number: int) -> Failure:
        if (again.wait_s or 0.0) > self._policy.longest_wait_s:
            raise BackendError(
                f"{self._who} {again.what}, and asks to wait {again.wait_s:.0f} s: run again after that, what is"
                " done stays"
            )
        with self._lock:
            self._unanswered += 1
            if self._unanswered >= _MOST_UNANSWERED or (again.is_unmet and not self._has_answered):
                raise BackendError(
                    f"{self._who}: {again.what}; gave up {self._unanswered} row"
                    f"{'s' * (self._unanswered > 1)} after {number} attempts{' each' * (self._unanswered > 1)}. Run again"
                    " once it answers: what is done stays"
                )
        return Failure(f"the service: {again.what}; asked {number} times")

    def _wait(self, again: Again, number: int, stop: threading.Event) -> None:
        seconds = again.wait_s or self._policy.backoff_s(number, self._jitter())
        if not (again.is_busy or self._has_answered):
            seconds = min(seconds, _LONGEST_WAIT_AT_FIRST_S)
        _LOG.info("%s: %s; attempt %d follows in %.1f s", self._who, again.what, number + 1, seconds)
        if again.wait_s or again.is_busy:
            self._quota.pause(seconds)  # this concerns every request, not only this one
        else:
            nap(seconds, self._clock, stop)

    def _warn_once(self, what: str) -> None:
        if what not in self._warnings:
            self._warnings.add(what)
            _LOG.warning("%s: %s", self._who, what)


def _service(model: Model) -> Service:
    if model.service is None:
        raise BackendError(f"model {model.name}: backend openai needs the key service, with base_url")
    return model.service


def check_key(model: Model) -> None:
    """Errors: `BackendError` where the service's key is not set."""
    _key(model, _service(model), os.environ.get)


def _key(model: Model, service: Service, secret: Secret) -> str | None:
    """The key's value; None where the service needs none. It must not get into any message."""
    variable = service.api_key_env
    if variable is None:
        return None
    key = (secret(variable) or "").strip()
    if key and key.isascii() and key.isprintable() and " " not in key:
        return key
    wrong = "has characters that no key can have" if key else "is not set"
    raise BackendError(
        f"model {model.name}: the environment variable {variable}, the key of {service.base_url}, {wrong}:"
        " set it, then run again (nothing was sent)"
    )
