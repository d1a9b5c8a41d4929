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
import os
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import date
from fractions import Fraction

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
from longtail.generation.backends.service.asking import NO_BUDGET, Asker, Call, Result
from longtail.generation.backends.service.billing import Budget
from longtail.storage.fingerprints import prompt_hash
from longtail.study.backends import GENERATE, SAMPLE, STREAM
from longtail.study.models import Model, Service
from longtail.study.prices import price_on
from longtail.transfer.http import Clock, RetryPolicy

_API_VERSION = "v1"
_POLICY = RetryPolicy(attempts=8, read_s=120.0, answer_s=180.0)


class OpenAIBackend:
    """Asks a service; constructing it sends nothing. Errors: `BackendError` where the key is missing."""

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
        service = _service(model)
        self.identity = self.identify(model)
        self._model, self._service = model, service
        self._asker = Asker(model, service, _key(model, service, secret), policy, clock or Clock(), jitter)
        self._pool = ThreadPoolExecutor(service.max_concurrency, thread_name_prefix=f"ask-{model.name}")
        self._budgets: list[Budget] = []

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
        """One greedy text per prompt."""
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
        if not len(prompts) == len(asked) == len(names):
            raise ValueError(
                f"{len(prompts)} prompts have {len(asked)} lists of seeds and {len(names)} names"
            )
        self._budgets.append(call.budget)
        return dispatch(self._asker, self._pool, self._service.max_concurrency, prompts, asked, names, call)

    def forget(self) -> None:
        """Nothing is kept here between calls; the service may keep what it likes."""

    def usage(self) -> Usage:
        """The device is the service's own; the memory is this process's."""
        return Usage("service")

    def close(self) -> None:
        """Wait for requests under way, and close the connections."""
        self._pool.shutdown(cancel_futures=True)
        self._asker.connection.close()

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


def dispatch(
    asker: Asker,
    pool: ThreadPoolExecutor,
    width: int,
    prompts: Sequence[str],
    seeds: Sequence[Sequence[int | None]],
    names: Sequence[str],
    call: Call,
) -> Iterator[tuple[int, Result]]:
    """Each row's index and result; prompts are taken one by one, each once.

    Errors: `BackendError` once all that was under way has been handed on. The same holds for Ctrl-C and an
    ended run, as the requests under way are paid for. A second Ctrl-C ends at once.
    """
    flying: dict[Future[Result], int] = {}
    end: BaseException | None = None
    waiting = ((i, asker.post(prompts[i], seeds[i], call)) for i in range(len(prompts)))
    head = next(waiting, None)
    try:
        while flying or (head and end is None):
            while head and end is None and len(flying) < (width if asker.has_answered else 1):
                index, post = head
                if not post.n:
                    yield index, []
                elif (purchase := asker.purchase(post, call)).set_aside():
                    future = pool.submit(asker.ask, post.prompt, seeds[index], names[index], call, purchase)
                    flying[future] = index
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
