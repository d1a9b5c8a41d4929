"""The models of a study: language models, the services that have them, and the models that compare texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from longtail.study.backends import BACKENDS, DTYPES, IMPORTED, QUANTISATIONS
from longtail.study.imports import Results
from longtail.study.parts import Entries, Part
from longtail.study.values import (
    Count,
    Default,
    Dollars,
    Flag,
    Phrases,
    Reading,
    Slug,
    Text,
    Variable,
    address,
    choose,
    fail,
    number,
    one_of,
    whole,
)

DEVICE_MAPS = ("auto", "balanced", "sequential")
APIS = ("completions", "chat")
PACKAGE = "package:"
"""Begins the path of a file that an installed package carries."""
GGUF = ".gguf"
MOST_THINKING_TOKENS = 131_072
BATCH_TOKENS = 16_384
"""The tokens of a batch on a CPU, and wherever a backend does not say how many it may have."""
TOP_K = 20
"""How many passages a study retrieves that does not say it."""


@dataclass(frozen=True)
class Service(Part):
    """A server with an OpenAI-compatible HTTP API, for backend `openai`."""

    base_url: Annotated[
        str, address("http://127.0.0.1:8000/v1", ": name the key by api_key_env", may_be_http=True)
    ]
    """its address without `/completions` or `/chat/completions`, as in https://api.openai.com/v1"""
    api: Annotated[str, one_of(APIS)] = "completions"
    """or `chat`"""
    api_key_env: Variable | None = None
    """the variable that holds the key"""
    max_concurrency: Annotated[int, whole(1, 1024)] = 8
    """requests at once"""
    requests_per_minute: Annotated[Count | None, Default("no limit")] = None
    """the server's limit"""
    tokens_per_minute: Annotated[Count | None, Default("no limit")] = None
    """the server's limit"""
    max_cost_usd: Annotated[Dollars | None, Default("no limit")] = None
    """what each partition may cost; a run has several"""
    prompt_usd_per_million: Annotated[Dollars | None, Default("price list")] = None
    """for a million tokens; give both prices or none"""
    completion_usd_per_million: Annotated[Dollars | None, Default("price list")] = None
    """for a million tokens"""
    log_probabilities: Flag = False
    """ask for those of greedy answers (SPEC §11), and anew for answers that lack them; some services refuse to give
    them"""

    @classmethod
    def expand(cls, raw: Mapping[str, Any], reading: Reading) -> Mapping[str, Any]:
        url = raw.get("base_url")
        return {**raw, "base_url": url.rstrip("/")} if isinstance(url, str) else raw

    def check(self, raw: Mapping[str, Any], reading: Reading) -> Service:
        if (self.prompt_usd_per_million is None) != (self.completion_usd_per_million is None):
            raise fail("prompt_usd_per_million", "goes together with completion_usd_per_million")
        return self


@dataclass(frozen=True)
class Model(Part):
    """A language model.

    A relative `path` is relative to the study file, in `study_folder`. The `revision` of a GGUF file is its SHA-256. For
    a service, `dtype` and `quantisation` are `unknown` unless declared; they distinguish its rows. If a model `rambles`,
    the rest of its answer is dropped (SPEC §3). The reasoning of a model that thinks first is no part of the answer (SPEC
    §12). Backend `imported` loads no model: its answers are the imported `results`.
    """

    name: Slug
    """the model"""
    path: Annotated[Text, Default("")]
    """a folder, a hub id, a GGUF file, `package:<package>/<file>`, `sandbox:s` (also m, l, e, f, i), or the name at a
    service"""
    backend: Annotated[str, one_of(lambda _reading: tuple(BACKENDS))] = "transformers"
    """what answers; below"""
    family: Annotated[Text, Default("its name")] = ""
    """describes it"""
    n_parameters: Annotated[Count | None, Default("unknown")] = None
    """describes it; figures by size need it"""
    revision: Annotated[Text | None, Default("newest")] = None
    """of a hub id"""
    dtype: Text = DTYPES[0]
    """or `bfloat16`, `float16`"""
    quantisation: Text = QUANTISATIONS[0]
    """or `8bit`, `4bit`"""
    device: Text = "auto"
    """a torch device"""
    device_map: Annotated[str, one_of(DEVICE_MAPS)] | None = None
    """`auto`, `balanced` or `sequential`: one model over several GPUs"""
    batch_tokens: Annotated[Annotated[int, whole(64)] | None, Default("by device")] = None
    """the largest number of tokens in a batch: 16,384 on a CPU; on a GPU by its memory, at most 262,144"""
    device_hour_usd: Annotated[Dollars | None, Default("unknown")] = None
    """what an hour of the device costs"""
    rambles: Flag = False
    """keep only the first sentence of its answers"""
    thinking_tokens: Annotated[int, whole(0, MOST_THINKING_TOKENS)] = 0
    """new tokens that a model which thinks first may write on top of `max_new_tokens`; its answer is what follows its
    reasoning. See [models.md](models.md#models-that-think-first)"""
    declines: Phrases = ()
    """answers by which it says that it does not know, as in `[No idea.]`: whole answers, whatever their case and end
    marks. They are wrong, and counted apart"""
    encoder_decoder: Flag = False
    """it is one: some prompts then have another form"""
    instruction_tuned: Annotated[Flag | None, Default("unknown")] = None
    """describes it"""
    passages: Annotated[int, whole(0)] = 0
    """how many it reads apart from the question; fusion_in_decoder: 20, or `top_k` if that is smaller. With 0 it reads
    the first passage before the question"""
    passage_tokens: Annotated[int, whole(16)] = 384
    """the largest number of tokens of question and passage"""
    service: Annotated[Service | None, Default("")] = None
    """backend openai: below"""
    results: Annotated[Entries[Results], Default("")] = ()
    """backend imported: a list of files of answers, below"""
    obtain: Annotated[Text | None, Default("")] = field(default=None, compare=False)
    """how one gets the folder of `path`: the error repeats it where the folder is missing"""
    study_folder: Path | None = field(default=None, compare=False)
    left_out = ("study_folder",)

    @classmethod
    def expand(cls, raw: Mapping[str, Any], reading: Reading) -> Mapping[str, Any]:
        """The keys that the backend understands, with its defaults: no key may be silently ignored."""
        name = choose("backend", raw.get("backend", cls.backend), tuple(BACKENDS))
        backend = BACKENDS[name]
        needed = {known.needs: other for other, known in BACKENDS.items() if known.needs}
        for key in sorted({key for known in BACKENDS.values() for key in known.keys} - backend.keys):
            if raw.get(key) is not None:
                owner = needed.get(key)
                if owner:
                    raise fail(key, f"goes with backend {owner}, and {BACKENDS[owner].because}")
                raise fail(key, f"has no meaning for backend {name}; leave it out")
        if backend.needs and raw.get(backend.needs) is None:
            raise fail(backend.needs, f"goes with backend {name}, and {backend.because}")
        if backend.generates and "path" not in raw:
            raise fail("path", "is missing; it must be a text")
        top_k = reading.study.get("top_k", TOP_K)
        defaults = {
            "dtype": backend.dtype,
            "quantisation": backend.quantisation,
            "passages": min(backend.passages, top_k) if isinstance(top_k, int) else 0,
            **({} if backend.generates else {"path": IMPORTED}),
        }
        return {**defaults, **raw}

    def check(self, raw: Mapping[str, Any], reading: Reading) -> Model:
        backend, top_k = BACKENDS[self.backend], reading.study.get("top_k", TOP_K)
        choose("dtype", self.dtype, backend.dtypes)
        choose("quantisation", self.quantisation, backend.quantisations)
        if self.passages < min(backend.passages, 1):
            raise fail("passages", f"must be a whole number of 1 to {10**12}, not {self.passages}")
        if isinstance(top_k, int) and self.passages > top_k:
            message = f"the study retrieves {top_k} for a question, not {self.passages}; raise top_k"
            raise fail("passages", message)
        if self.is_gguf and self.quantisation != "none":
            raise fail("quantisation", "leave it out: a GGUF file has a quantisation of its own")
        return self if self.family else dataclasses.replace(self, family=self.name)

    @property
    def generates(self) -> bool:
        """Whether the platform asks this model; imported answers come from files."""
        return self.backend not in BACKENDS or BACKENDS[self.backend].generates

    @property
    def is_gguf(self) -> bool:
        """Whether its path names a GGUF file that this machine loads."""
        is_file = self.path.startswith(PACKAGE) or self.path.lower().endswith(GGUF)
        return self.backend == "transformers" and is_file


@dataclass(frozen=True)
class Embeddings(Part):
    """Where the sentence encoder computes, and what it checks.

    `least_paraphrase_cosine` is compared with the mean of each relation; -1 lets all pass. The default is between two
    groups: our paraphrases have 0.91 to 0.96 by relation, and questions about the same subject by other relations'
    templates 0.64 to 0.77.
    """

    device: Text = "auto"
    """a torch device; auto: a GPU if there is one"""
    least_paraphrase_cosine: Annotated[float, number(-1 - 1e-9, 1)] = 0.8
    """the run stops if a relation's paraphrases are less similar to their questions"""


@dataclass(frozen=True)
class Nli(Part):
    """A sequence-classification model that says whether one answer entails another (SPEC §7). A relative `path` is
    relative to the study file, in `study_folder`."""

    path: Text
    """a folder or hub id of a sequence classifier"""
    revision: Annotated[Text | None, Default("newest")] = None
    """of a hub id"""
    device: Text = "auto"
    """a torch device"""
    study_folder: Path | None = field(default=None, compare=False)
    left_out = ("study_folder",)
