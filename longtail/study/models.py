"""Key `models` of study.yaml: the language models, and the services that have them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from longtail.study.backends import BACKENDS, IMPORTED
from longtail.study.imports import Results, read_results
from longtail.study.reader import Reader

DEVICE_MAPS = ("auto", "balanced", "sequential")
APIS = ("completions", "chat")
PACKAGE = "package:"
"""Begins the path of a file that an installed package carries."""
GGUF = ".gguf"


MOST_THINKING_TOKENS = 131_072
BATCH_TOKENS = 16_384
"""The tokens of a batch on a CPU, and wherever a backend does not say how many it may have."""


@dataclass(frozen=True)
class Service:
    """A server with an OpenAI-compatible HTTP API, for backend `openai`.

    `base_url` ends before `/completions` or `/chat/completions`. `api_key_env` names the environment variable with the
    key. `requests_per_minute` and `tokens_per_minute` are the server's limits; None: no limit. A partition may cost
    `max_cost_usd`. Prices are in dollars per million tokens; None: the price table's. With `log_probabilities`, greedy
    answers are asked for with those of their tokens, from which their confidence follows.
    """

    base_url: str
    api: str = "completions"
    api_key_env: str | None = None
    max_concurrency: int = 8
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_cost_usd: float | None = None
    prompt_usd_per_million: float | None = None
    completion_usd_per_million: float | None = None
    log_probabilities: bool = False


@dataclass(frozen=True)
class Model:
    """A language model.

    `path` is a hub id, a folder or a GGUF file (relative to the study file, in `study_folder`), `sandbox:s`, `sandbox:m`
    or `sandbox:l` for the reference models, `package:<package>/<file>` for a GGUF file that an installed package
    carries, or the model's name at a `service`. The `revision` of a GGUF file is its SHA-256. `device` is a torch device
    or `auto`; `device_map` spreads a model over several GPUs. `batch_tokens` limits the tokens of a local batch (None: by
    the device's memory). For a service, `dtype` and `quantisation` are `unknown` unless declared; they distinguish its
    rows. `device_hour_usd` is the price of one hour of one local device. If a model `rambles`, only the first sentence of
    its answer is kept (SPEC §3). A model that thinks before it answers may write `thinking_tokens` more than the study's
    `max_new_tokens`; its reasoning is no part of the answer (SPEC §12). An answer that is one of `declines` is declined.
    `encoder_decoder` says that it is one: some prompts then have another form. It reads
    `passages` of what was retrieved apart from the question, and loses the end of one that makes the question longer than
    `passage_tokens`; with 0 it reads the first passage before the question. `instruction_tuned` only describes it (None:
    not said).
    Backend `imported` loads no model: its answers are the imported `results`. `obtain` says how one gets a folder that
    is missing: the error repeats it.
    """

    name: str
    path: str
    backend: str = "transformers"
    family: str = ""
    n_parameters: int | None = None
    revision: str | None = None
    dtype: str = "float32"
    quantisation: str = "none"
    device: str = "auto"
    device_map: str | None = None
    batch_tokens: int | None = None
    device_hour_usd: float | None = None
    rambles: bool = False
    thinking_tokens: int = 0
    declines: tuple[str, ...] = ()
    encoder_decoder: bool = False
    instruction_tuned: bool | None = None
    passages: int = 0
    passage_tokens: int = 384
    service: Service | None = None
    results: tuple[Results, ...] = ()
    obtain: str | None = field(default=None, compare=False)
    study_folder: Path | None = field(default=None, compare=False)

    @property
    def generates(self) -> bool:
        """Whether the platform asks this model; imported answers come from files."""
        return self.backend not in BACKENDS or BACKENDS[self.backend].generates

    @property
    def is_gguf(self) -> bool:
        """Whether its path names a GGUF file that this machine loads."""
        is_file = self.path.startswith(PACKAGE) or self.path.lower().endswith(GGUF)
        return self.backend == "transformers" and is_file


def read_model(read: Reader, top_k: int) -> Model:
    """One entry of `models`, in a study that retrieves `top_k` passages. Errors: `StudyError`."""
    read.only(*(f.name for f in dataclasses.fields(Model) if f.name != "study_folder"))
    name = read.slug("name")
    name_of_backend = read.choice("backend", tuple(BACKENDS), "transformers")
    _check_keys(read, name_of_backend)
    backend = BACKENDS[name_of_backend]
    model = Model(
        name=name,
        path=read.text("path", None if backend.generates else IMPORTED),
        backend=name_of_backend,
        family=read.text("family", name),
        n_parameters=read.optional("n_parameters", lambda key: read.number(key, 1, 1)),
        revision=read.optional("revision", read.text),
        dtype=read.choice("dtype", backend.dtypes, backend.dtype),
        quantisation=read.choice("quantisation", backend.quantisations, backend.quantisation),
        device=read.text("device", "auto"),
        device_map=read.optional("device_map", lambda key: read.choice(key, DEVICE_MAPS)),
        batch_tokens=read.optional("batch_tokens", lambda key: read.number(key, 64, 64)),
        device_hour_usd=read.optional("device_hour_usd", read.price),
        rambles=read.flag("rambles"),
        thinking_tokens=read.number("thinking_tokens", 0, 0, MOST_THINKING_TOKENS),
        declines=read.phrases("declines"),
        encoder_decoder=read.flag("encoder_decoder"),
        instruction_tuned=read.optional("instruction_tuned", read.flag),
        passages=_passages(read, backend.passages, top_k),
        passage_tokens=read.number("passage_tokens", Model.passage_tokens, 16),
        service=_service(read.child("service")) if read.raw.get("service") is not None else None,
        results=tuple(map(read_results, read.children("results"))) if "results" in read.raw else (),
        obtain=read.optional("obtain", read.text),
        study_folder=read.path.parent,
    )
    if model.is_gguf and model.quantisation != "none":
        raise read.fail("quantisation", "leave it out: a GGUF file has a quantisation of its own")
    return model


def _passages(read: Reader, default: int, top_k: int) -> int:
    """How many passages the model reads apart from the question."""
    found = read.number("passages", min(default, top_k), min(default, 1))
    if found > top_k:
        raise read.fail("passages", f"the study retrieves {top_k} for a question, not {found}; raise top_k")
    return found


def _check_keys(read: Reader, name: str) -> None:
    """Refuse keys that the backend does not understand: no key may be silently ignored."""
    backend = BACKENDS[name]
    needed = {one.needs: other for other, one in BACKENDS.items() if one.needs}
    for key in sorted({key for one in BACKENDS.values() for key in one.keys} - backend.keys):
        if read.raw.get(key) is not None:
            owner = needed.get(key)
            if owner:
                raise read.fail(key, f"goes with backend {owner}, and {BACKENDS[owner].because}")
            raise read.fail(key, f"has no meaning for backend {name}; leave it out")
    if backend.needs and read.raw.get(backend.needs) is None:
        raise read.fail(backend.needs, f"goes with backend {name}, and {backend.because}")


def _service(read: Reader) -> Service:
    read.only(*(f.name for f in dataclasses.fields(Service)))
    url = _base_url(read)
    prices = {
        key: read.optional(key, read.price)
        for key in ("max_cost_usd", "prompt_usd_per_million", "completion_usd_per_million")
    }
    if (prices["prompt_usd_per_million"] is None) != (prices["completion_usd_per_million"] is None):
        raise read.fail("prompt_usd_per_million", "goes together with completion_usd_per_million")
    return Service(
        base_url=url,
        api=read.choice("api", APIS, "completions"),
        api_key_env=read.optional("api_key_env", read.environment_name),
        max_concurrency=read.number("max_concurrency", Service.max_concurrency, 1, 1024),
        requests_per_minute=read.optional("requests_per_minute", lambda key: read.number(key, 1, 1)),
        tokens_per_minute=read.optional("tokens_per_minute", lambda key: read.number(key, 1, 1)),
        log_probabilities=read.flag("log_probabilities"),
        **prices,
    )


def _base_url(read: Reader) -> str:
    """An address without secrets. The message does not show a wrong address, as it may contain a secret."""
    url = read.text("base_url").rstrip("/")
    if "@" in url or "?" in url or "#" in url:
        raise read.fail("base_url", "may hold no user name, password or query: name the key by api_key_env")
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or any(char.isspace() for char in url):
        raise read.fail("base_url", "must be an address, as in http://127.0.0.1:8000/v1")
    return url
