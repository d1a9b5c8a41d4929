"""Asking for one row: attempts, pauses, choices that are missing, and the row's accounts."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeGuard

from longtail.errors import BackendError
from longtail.generation.backends.base import Decoding, Failure, Generation, Postponed
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
from longtail.study.models import Model, Service
from longtail.study.prices import Price
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


@dataclass
class Call:
    """What the rows of one call share."""

    decoding: Decoding
    price: Price | None
    budget: Budget
    is_resumed: bool = False
    stop: threading.Event = field(default_factory=threading.Event)


class Asker:
    """Asks one server; what it learns of the server stays with it. Safe between threads."""

    def __init__(
        self,
        model: Model,
        service: Service,
        key: str | None,
        policy: RetryPolicy,
        clock: Clock,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._redactor = Redactor(key)
        source = f", key from {service.api_key_env}" if service.api_key_env else ""
        self.who = f"model {model.name} (service {self._redactor.message(service.base_url)}{source})"
        url = service.base_url.rstrip("/") + PATHS[service.api]
        self.connection = Connection(url, key, self._redactor, policy, clock)
        self._interpreter = Interpreter(model, service, self._redactor)
        self._quota = MinuteQuota(service.requests_per_minute, service.tokens_per_minute, clock)
        self._policy, self._clock, self._jitter = policy, clock, jitter
        self._path, self._api, self._log_probabilities = model.path, service.api, service.log_probabilities
        self._lock = threading.Lock()
        self._refused = 0
        self._unanswered = 0
        self._n_sampled = 0
        self._has_varied = False
        self._excess = Fraction(1)
        self._warnings: set[str] = set()
        self.has_answered = False

    def purchase(self, post: Post, call: Call) -> Purchase:
        """The money for a request: the most that it may cost, as far as the service has kept to what was asked."""
        return Purchase(call.budget, self._excess * bound(post, self._api, call.price).usd)

    def post(self, prompt: str, seeds: Sequence[int | None], call: Call) -> Post:
        """The request for one text per seed: the service spreads the first seed over the samples."""
        return Post(prompt, call.decoding, len(seeds), next(iter(seeds), None), self._log_probabilities)

    def ask(
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
            post = self.post(prompt, seeds[first:], call)
            key = f"{name} {first}"
            outcome = self._answer(post, key, call, self.purchase(post, call) if first else purchase)
            if not isinstance(outcome, list):
                return outcome
            texts += outcome
        self._compare(texts)
        return texts

    def _answer(self, post: Post, name: str, call: Call, purchase: Purchase) -> Result:
        body = post.body(self._path, self._api)
        key = idempotency_key(name, self.connection.url, body)
        most = bound(post, self._api, call.price)
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
                    purchase.release()
                    return self._give_up(meaning, number, call)
                self._wait(meaning, number, call.stop)
            raise AssertionError("a policy allows at least one attempt")
        finally:
            purchase.abandon()

    def _attempt(self, body: bytes, key: str, most: Bound, stop: threading.Event) -> Meaning | None:
        """What one request brings; None where the run was stopped before it was sent."""
        sending = self._quota.start(most.tokens, stop)
        if sending is None:
            return None
        reply = self.connection.post(body, key)
        meaning = self._interpreter.meaning(reply, self._clock.now())
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
            self.has_answered = True
            self._unanswered = 0
            if billed > most.usd:
                self._excess = max(self._excess, billed / most.usd)
                self._warn_once("bills more than was asked for: later requests set more of the budget aside")
            if answer.model is not None and answer.model != self._path:
                named = self._redactor.message(answer.model)
                self._warn_once(
                    f"says that it answers by model {named!r}, where {self._path!r} was asked for"
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
        is_wrong_address = meaning.is_unmet and not self.has_answered and number >= _ATTEMPTS_AT_ADDRESS
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
        raise BackendError(f"{self.who} {meaning.what}")

    def _note_refusal(self, refused: Refused, call: Call) -> Failure:
        with self._lock:
            self._unanswered = 0
            self._refused += 1
            is_known = self.has_answered or call.is_resumed
            if not is_known and self._refused >= _MOST_REFUSED:
                raise BackendError(
                    f"{self.who} refused the first {_MOST_REFUSED} rows alike, last: it {refused.what}; check api,"
                    " path and the length of the prompts"
                )
        return Failure(f"the service {refused.what}")

    def _note_silence(self, again: Again, number: int) -> Failure:
        if (again.wait_s or 0.0) > self._policy.longest_wait_s:
            raise BackendError(
                f"{self.who} {again.what}, and asks to wait {again.wait_s:.0f} s: run again after that, what is"
                " done stays"
            )
        with self._lock:
            self._unanswered += 1
            if self._unanswered >= _MOST_UNANSWERED or (again.is_unmet and not self.has_answered):
                raise BackendError(
                    f"{self.who}: {again.what}; gave up {self._unanswered} row"
                    f"{'s' * (self._unanswered > 1)} after {number} attempts{' each' * (self._unanswered > 1)}. Run again"
                    " once it answers: what is done stays"
                )
        return Failure(f"the service: {again.what}; asked {number} times")

    def _wait(self, again: Again, number: int, stop: threading.Event) -> None:
        seconds = again.wait_s or self._policy.backoff_s(number, self._jitter())
        if not (again.is_busy or self.has_answered):
            seconds = min(seconds, _LONGEST_WAIT_AT_FIRST_S)
        _LOG.info("%s: %s; attempt %d follows in %.1f s", self.who, again.what, number + 1, seconds)
        if again.wait_s or again.is_busy:
            self._quota.pause(seconds)  # this concerns every request, not only this one
        else:
            nap(seconds, self._clock, stop)

    def _warn_once(self, what: str) -> None:
        if what not in self._warnings:
            self._warnings.add(what)
            _LOG.warning("%s: %s", self.who, what)
