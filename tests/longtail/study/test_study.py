"""Study files: the shipped ones load; an error names in one line the file, the key, and the allowed values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import pytest

from longtail.embedding.settings import EncoderSettings, IvfPq
from longtail.errors import StudyError
from longtail.generation.backends.openai import OpenAIBackend
from longtail.methods import METHODS
from longtail.relations.relation import relation_names
from longtail.retrieval.retrievers.bm25 import Bm25Settings
from longtail.storage.home import DEFAULT_STUDY_FILE, PROJECT_ROOT
from longtail.study.datasets import Dataset
from longtail.study.file import load_study
from longtail.study.imports import Place, TagMe
from longtail.study.models import Embeddings, Model, Nli, Service
from longtail.study.prompts import Grounding, PortraitOf, Prompt, Sampling
from longtail.study.source import Popularity
from longtail.study.study import Study
from longtail.study.sweep import Rates, Sweep
from tests.longtail.study.valid_study import VALID, edited

SHIPPED = [DEFAULT_STUDY_FILE, *sorted((PROJECT_ROOT / "studies").glob("*.yaml"))]
OF_IMPORTS = {
    "imported",
    "paraphrases",
    "results",
    "collections",
    "first_rows",
    "ids",
    "max_questions",
    "definitions",
    "popularity_name",
}
"""Fields that no study of the sandbox can have: tests/longtail/study/test_imports_declared.py names their keys."""


def changed(path: str, value: object) -> dict[str, Any]:
    """`VALID` with another value for one key."""
    return edited(VALID, path, value)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_studies_load(path: Path) -> None:
    study = load_study(path)
    assert study.models
    assert study.answer_prompts or study.candidate_prompts
    assert set(study.retrieval_methods) < set(study.methods)


def test_every_key_arrives(load: Callable[[object], Study]) -> None:
    study = load(VALID)
    assert (study.name, study.top_k, study.max_new_tokens, study.seed) == ("fair", 2, 7, 3)
    assert (study.background_tokens, study.sampling) == (90, Sampling(n=4, temperature=1.0))
    assert study.embeddings == Embeddings("cpu", 0.9)
    assert study.nli == Nli("nli", "main", "cpu")
    assert study.grounding == Grounding(
        PortraitOf((), 0.01), ("null", "expert_editor"), (("tiny", 2),), 300, ("facts",),
        (("tiny", "<user>{prompt}<model>"),), ("closed_book",), ("facts",), "reference",
    )  # fmt: skip
    assert study.sweep == Sweep(
        "tiny", "nearest", "facts", 5, "reference", 3, (2, 4), (Rates(0.01, 0.02),), (0.5,), (3,),
        (("father",), ("father", "sport")), 6, 2, ("capital",), 7, 0.2, 1,
    )  # fmt: skip
    assert study.source.facts_per_relation == 8
    assert study.datasets == (Dataset("facts", ("father", "capital"), 5, split_by="subject", end_task="f1"),)
    assert study.prompts == (
        Prompt("plain", generations=("questions", "paraphrases"), declines=("unknown",)),
        Prompt(
            "shots", "qa", 15, "per_relation", "all_questions", reference_demos=True, methods=("closed_book",)
        ),
        Prompt("bare", "question", generations=("samples",)),
    )
    assert load(changed("prompts.1.draw", ...)).prompts == study.prompts  # the default shares demonstrations
    assert study.models[0] == Model(
        name="tiny", path="sandbox:s", backend="fusion_in_decoder", family="f", n_parameters=7, revision="main",
        dtype="float16", quantisation="8bit", device="cuda", device_map="balanced", batch_tokens=128,
        device_hour_usd=0.5, rambles=True, encoder_decoder=True, instruction_tuned=False, passages=1,
        passage_tokens=200, thinking_tokens=900, declines=("No idea.", "I don't know"),
    )  # fmt: skip
    assert study.models[0].obtain == "ask Ada for it"
    assert study.models[1].service == Service(
        base_url="https://127.0.0.1:8000/v1", api="chat", api_key_env="SOME_KEY", max_concurrency=4,
        requests_per_minute=60, tokens_per_minute=9000, max_cost_usd=2.5, prompt_usd_per_million=1.0,
        completion_usd_per_million=0.0, log_probabilities=True,
    )  # fmt: skip
    assert study.retrieval_methods == ("oracle", "stemmed", "nearest")
    assert [study.reads_paraphrases(name) for name in study.retrieval_methods] == [False, True, True]
    stemmed, nearest = study.retrievers
    assert stemmed.settings == Bm25Settings(0.9, 0.0, "english", "porter", "cjk_bigrams")
    assert nearest.settings == EncoderSettings(
        path="encoder", revision="main", query_path="asking", query_revision="main", pooling="cls", normalise=False,
        query_prefix="query: ", passage_prefix="passage: ", max_tokens=64, dtype="float16", device="cpu",
        batch_tokens=512, search=IvfPq(64, 9, 8, 6, 2),
    )  # fmt: skip
    assert (stemmed.retriever, stemmed.index, stemmed.can_be_fused) == (
        METHODS["bm25"].retriever,
        "bm25s",
        True,
    )
    assert (nearest.cuts_last_sentence, nearest.is_default, study.method("nearest")) == (True, False, nearest)
    assert stemmed.description.endswith(
        "(b: 0, k1: 0.9, stemmer: porter, stop_words: english, tokens: cjk_bigrams)"
    )
    assert study.popularity == Popularity("page_views", 3, "2026-09", "sum", "all")
    (reference,) = study.reference_questions
    assert (reference.name, reference.place, reference.tagme) == ("nq", Place("nq.jsonl"), TagMe(min_rho=0.3))


def test_prompts_by_what_they_ask(load: Callable[[object], Study]) -> None:
    study = load(VALID)
    assert [p.name for p in study.answer_prompts] == ["plain", "shots"]
    assert [p.name for p in study.prompts_of("closed_book")] == ["plain", "shots"]
    assert [p.name for p in study.prompts_of("oracle")] == ["plain"]
    assert [p.name for p in study.prompts_of("nearest")] == ["plain"]
    assert [p.name for p in study.paraphrase_prompts] == ["plain"]
    assert [p.name for p in study.sample_prompts] == ["bare"]


def test_valid_names_every_key() -> None:
    """Otherwise a key could be missing in `test_every_key_arrives` and in the changes below."""
    kinds = {
        Study: VALID, Dataset: VALID["datasets"][0], Sampling: VALID["sampling"], Popularity: VALID["popularity"],
        Embeddings: VALID["embeddings"], Nli: VALID["nli"], Grounding: VALID["grounding"],
        Prompt: VALID["prompts"][0] | VALID["prompts"][1], Model: VALID["models"][0] | VALID["models"][1],
        Service: VALID["models"][1]["service"], Sweep: VALID["sweep"], Rates: VALID["sweep"]["learning_rates"][0],
        Bm25Settings: VALID["retrievers"][0], EncoderSettings: VALID["retrievers"][1],
    }  # fmt: skip
    for kind, raw in kinds.items():
        keys = {f.name for f in dataclasses.fields(kind)} - {"path", "study_folder", "limit"} - OF_IMPORTS
        named_apart = {"name", "kind"} if kind in (Bm25Settings, EncoderSettings) else set()
        named_apart |= {f.name for f in dataclasses.fields(IvfPq)} if kind is EncoderSettings else set()
        assert keys == set(raw) - {"path"} - named_apart, kind.__name__


def test_without_keys_of_its_own_the_reference_schedule_trains_the_settings_of_the_public_scripts(
    load: Callable[[object], Study],
) -> None:
    grid = ("settings", "batch_sizes", "learning_rates", "temperatures", "passages", "training_relations")
    raw = VALID
    for key in grid:
        raw = edited(raw, f"sweep.{key}", ...)
    sweep = load(raw).sweep
    assert sweep is not None
    drawn = sweep.drawn
    assert len(drawn) == len(set(drawn)) == 19  # of 22: three stand twice
    assert drawn[0].name == "b32_lr5e_05_1e_05_t0_1_k20_p138"
    assert set(drawn) < set(sweep.grid)
    assert sweep.setting("b64_lr4e_05_4e_05_t0_01_k30_p138_p127") == drawn[-2]
    constant = load(edited(raw, "sweep.schedule", "constant")).sweep
    assert constant is not None
    assert constant.settings == len(constant.drawn) == 22


def test_the_grid_of_a_sweep_is_drawn_from_by_its_seed() -> None:
    """SPEC §8: 108 settings, of which 22 are drawn."""
    sweep = Sweep("reader", "dense", "pararel")
    assert len({one.name for one in sweep.grid}) == 108
    assert len({one.name for one in sweep.drawn}) == 22
    assert (
        sweep.drawn == Sweep("reader", "dense", "pararel").drawn != dataclasses.replace(sweep, seed=1).drawn
    )
    assert [sweep.grid.index(one) for one in sweep.drawn] == sorted(map(sweep.grid.index, sweep.drawn))
    assert sweep.grid[0].name == "b4_lr5e_05_1e_05_t0_1_k10_p138"


def test_defaults(load: Callable[[object], Study]) -> None:
    study = load(
        {
            "name": "short", "description": "d", "source": {"kind": "sandbox", "snapshot": "2026-10"},
            "datasets": [{"name": "facts"}], "prompts": [{"name": "plain"}],
            "models": [{"name": "m", "path": "gpt2"}], "popularity": {},
        }
    )  # fmt: skip
    assert study.methods == ("closed_book", "bm25", "dense", "oracle")
    assert study.datasets == (Dataset("facts", relation_names("popqa"), None),)
    assert study.prompts == (Prompt("plain", "qa", 0, None, "other_relations", False, ("questions",)),)
    assert study.models == (Model(name="m", path="gpt2", family="m"),)
    model = study.models[0]
    assert (model.backend, model.dtype, model.quantisation, model.device) == (
        "transformers",
        "float32",
        "none",
        "auto",
    )
    assert (model.rambles, model.service, model.device_map, model.batch_tokens) == (False, None, None, None)
    assert (study.popularity, study.source.facts_per_relation) == (Popularity("page_views", 12, None), 140)
    assert (study.max_new_tokens, study.background_tokens, study.sampling) == (15, 150, Sampling(10, 0.5))
    assert (study.top_k, study.seed) == (20, 0)


def test_declared_weights_of_a_service_distinguish_its_rows(load: Callable[[object], Study]) -> None:
    plain, declared = load(VALID), load(changed("models.1.quantisation", "8bit"))
    assert (declared.models[1].dtype, declared.models[1].quantisation) == ("unknown", "8bit")
    one, other = (OpenAIBackend.identify(study.models[1]) for study in (plain, declared))
    assert one.weights != other.weights


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("name", "Big Name", "name: 'Big Name' must be lower-case letters, digits"),
        ("name", "a__b", "single underscores"),
        ("name", "lake", "'lake' is taken; not allowed: build, cache"),
        ("name", "own_limit_9", "name: 'own_limit_9' ends as the names of quick runs do (_limit_50); choose another"),
        ("name", ..., "name: is missing; it must be a text"),
        ("description", 3, "description: must be a text, not int 3"),
        ("owners", ["team:nlp", "Ada"], "owners: must hold addresses or teams, as in ada@example.org and team:nlp"),
        ("modles", [], "modles: unknown key; did you mean models? allowed: background_tokens, collections, counts"),
        ("source", ..., "source: is missing"),
        ("source.kind", "wikipedia", "source.kind: 'wikipedia' is not one of: sandbox, wikidata, rdf_file"),
        ("source.path_env", "X", "source.path_env: unknown key"),
        ("source.snapshot", "2026-13", "source.snapshot: must be a month in quotes, as in '2026-10'"),
        ("datasets", [], "datasets: must be a list with at least one entry"),
        ("datasets.0", "facts", "datasets[0] must be a mapping of keys, not str 'facts'"),
        ("datasets.0.relations", ["fathr"], "capital; did you mean father?"),
        ("datasets.0.relations", ["father", "father"], "datasets[0].relations: names something twice"),
        ("datasets.0.max_questions_per_relation", True, "datasets[0].max_questions_per_relation: must be a whole number"),
        ("prompts.0.draw", "per_question", "prompts[0].draw: goes with shots above 0"),
        ("prompts.1.draw", None, "prompts[1].draw: goes with shots above 0, and is one of: per_relation, per_question"),
        ("prompts.1.methods", ["bm25"], "prompts[1].methods: 'bm25' is not one of the study's: closed_book, gen"),
        ("prompts.1.methods", [], "prompts[1].methods: must be a list of at least one of: closed_book"),
        ("prompts.2.methods", ["oracle"], "prompts[2].methods: goes with generations: [questions]"),
        ("prompts.0.methods", ["oracle"], "prompts: none asks questions by method 'genread'; add it under methods"),
        ("prompts.0.demonstrations_from", "all_questions", "prompts[0].demonstrations_from: goes with shots above 0"),
        ("prompts.1.reference_demos", "yes", "prompts[1].reference_demos: must be true or false, not 'yes'"),
        ("prompts", [{"name": "p", "generations": ["paraphrases"]}], "prompts: at least one must ask questions"),
        ("prompts.1.name", "plain", "prompts: 'plain' appears twice"),
        ("models.0.backend", "vllm", "models[0].backend: 'vllm' is not one of: fake, fusion_in_decoder, imported"),
        ("models.0.device_hour_usd", -1, "models[0].device_hour_usd: must be a number of at least 0 (dollars), not -1"),
        ("models.0.declines", [False], "models[0].declines: must hold texts, not bool False"),
        ("prompts.0.declines", ["..."], "prompts[0].declines: must hold texts with letters or digits, not '...'"),
        ("models.0.service", {}, "models[0].service: goes with backend openai, and says where its server is"),
        ("sweep.model", "served", "sweep.model: 'served' is not one of: tiny"),
        ("sweep.retriever", "stemmed", "sweep.retriever: 'stemmed' is not one of: nearest"),
        ("sweep.dataset", "popqa", "sweep.dataset: 'popqa' is not one of: facts"),
        ("sweep.every", 4, "sweep.every: 4 does not divide the 6 steps"),
        ("sweep.settings", 5, "sweep.settings: must be a whole number of 1 to 4, not 5"),
        ("sweep.batch_sizes", [2, 2], "sweep.batch_sizes: names something twice"),
        ("sweep.batch_sizes", [0], "sweep.batch_sizes.0: must be a whole number of 1 to 4096, not 0"),
        ("sweep.passages", [], "sweep.passages: must be a list with at least one value"),
        ("sweep.learning_rates.0.reader", 0, "sweep.learning_rates[0].reader: must be a number above 0 and at most 1"),
        ("sweep.training_relations", ["father"], "sweep.training_relations.0: must be a list of at least one text"),
        ("sweep.judged_relations", ["father"], "sweep.judged_relations: 'father' is trained on; judge by other"),
        ("models.1.service", ..., "models[1].service: goes with backend openai, and says where its server is (base_url)"),
        ("models.1.batch_tokens", 512, "models[1].batch_tokens: has no meaning for backend openai; leave it out"),
        ("models.1.service.base_url", "example.org/v1", "base_url: must be an address, as in http://127.0.0.1:8000/v1"),
        ("models.1.service.base_url", "http:///v1", "base_url: must be an address"),
        ("models.1.service.base_url", "http://x:99999", "base_url: must be an address"),
        ("models.1.service.base_url", "http://[::1", "base_url: must be an address"),
        ("models.1.service.base_url", "http://a b", "base_url: must be an address"),
        ("models.1.service.api_key", "k", "models[1].service.api_key: unknown key; did you mean api_key_env?"),
        ("models.1.service.prompt_usd_per_million", ..., "prompt_usd_per_million: goes together with completion_usd_per"),
        ("sampling", None, "sampling must be a mapping of keys, not nothing"),
        ("sampling.temperature", float("nan"), "must be a number above 0 and at most 2, not '.nan'"),
        ("methods", ["bm52"], "methods: 'bm52' is not one of: closed_book, genread, bm25, dense, "),
        ("methods", ["hybrid", "oracle", "random"], "methods: 'hybrid' takes the passages of other methods; name"),
        ("methods", ["hybrid"], "name at least one of bm25, dense, elsewhere, http, stemmed, nearest beside it"),
        ("methods", ["closed_book", "stemmed"], "retrievers: 'nearest' is not used; name it under methods, or leave it"),
        ("retrievers.0.name", "bm25", "retrievers[0].name: 'bm25' is the name of a built-in method; choose another"),
        ("retrievers.0.name", "nearest", "retrievers: 'nearest' appears twice"),
        ("retrievers.0.kind", "oracle", "retrievers[0].kind: 'oracle' is not one of: bm25, dense"),
        ("retrievers.0.kind", "dense", "retrievers[0].b: unknown key; allowed: batch_tokens, device, dtype"),
        ("popularity.last_month", "2015-06", "'2015-06' has no page views; allowed: '2015-07' to"),
        ("popularity.last_month", "2099-01", "'2099-01' has no page views; allowed: '2015-07' to '20"),
        ("popularity", {"n_months": 4, "last_month": "2015-09"}, "n_months: 4 months up to 2015-09 begin before"),
        ("popularity", {"n_months": 240, "last_month": "2026-09"}, "page views; allowed: 1 to 135"),
        ("popularity.measure", "sitelinks", "popularity.redirects: goes with measure: page_views"),
        ("popularity", {"measure": "leads"},
         "'leads' is not one of: page_views, sitelinks, imported, leads_subject_sentences, leads_pair_sentences"),
        ("popularity", {"measure": "sitelinks", "agent": "all"}, "popularity.agent: goes with measure: page_views"),
        ("reference_questions.0.name", "facts", "reference_questions: 'facts' is the name of a dataset; choose another"),
        ("source", {"kind": "rdf_file", "snapshot": "2026-10"}, "popularity.measure: an rdf_file holds no page views"),
    ],
)  # fmt: skip
def test_messages(refusal: Callable[[object], str], path: str, value: object, message: str) -> None:
    assert message in refusal(changed(path, value))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("api_key_env", "sk-Canary0123"),
        ("api_key_env", ["sk-Canary0123"]),
        ("base_url", "https://user:sk-Canary0123@127.0.0.1"),
        ("base_url", "https://127.0.0.1/v1?key=sk-Canary0123"),
        ("base_url", "sk-Canary0123"),
    ],
)
def test_a_key_written_into_the_study_is_refused_and_not_shown(
    refusal: Callable[[object], str], key: str, value: object
) -> None:
    message = refusal(changed(f"models.1.service.{key}", value))
    assert f"models[1].service.{key}: m" in message
    assert "Canary" not in message


def test_a_window_may_cover_all_months_with_page_views(load: Callable[[object], Study]) -> None:
    assert load(changed("popularity", {"n_months": 3, "last_month": "2015-09"})).popularity.n_months == 3
    assert load(changed("popularity", {"measure": "sitelinks", "n_months": 240})).popularity.n_months == 240


def test_live_page_views_end_with_the_newest_complete_month_and_the_sandboxs_with_its_snapshot(
    load: Callable[[object], Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime(2027, 3, 3, tzinfo=tz)

    monkeypatch.setattr("longtail.study.file.datetime", Clock)
    running, newest = "2027-03", "2027-02"
    raw = changed("popularity.last_month", running)
    raw["source"]["snapshot"] = running
    assert load(raw).popularity.last_month == running
    raw["source"] = {"kind": "wikidata", "snapshot": running}
    with pytest.raises(StudyError, match=f"last_month: '{running}' .*; allowed: '2015-07' to '{newest}'"):
        load(raw)
    raw["popularity"]["last_month"] = newest
    assert load(raw).popularity.last_month == newest


def test_lookups_by_name(load: Callable[[object], Study]) -> None:
    study = load(VALID)
    assert study.model("tiny").path == "sandbox:s"
    assert study.prompt("shots").shots == 15
    with pytest.raises(StudyError, match="model 'big' is not one of: tiny, served"):
        study.model("big")


_RELATIONS = """
- {name: employer, property: P108, question: "Who does [subj] work for?"}
- {name: father, property: P22, question: "Whose child is [subj]?"}
"""


@pytest.mark.parametrize(
    ("relations", "names"),
    [
        ("mine.yaml", ["employer", "father"]),
        (["mine.yaml", "genre"], ["employer", "father", "genre"]),
        (["genre", "mine.yaml"], ["employer", "father", "genre"]),
    ],
)
def test_a_file_of_relations_stands_for_all_of_them(
    load: Callable[[object], Study], tmp_path: Path, relations: object, names: list[str]
) -> None:
    (tmp_path / "mine.yaml").write_text(_RELATIONS)
    study = load(changed("datasets.0.relations", relations))
    assert [*study.datasets[0].relations] == names
    assert study.datasets[0].relation_set == "study"
    known = {relation.name: relation for relation in study.relations}
    assert (known["employer"].property_id, known["father"].template) == ("P108", "Whose child is [subj]?")
    assert len(known) == 17
    assert {relation.name for relation in study.relations_of_source} == {*names}


@pytest.mark.parametrize(
    ("relations", "file", "message"),
    [
        ("theirs.yaml", _RELATIONS, "datasets[0].relations: {folder}/theirs.yaml: there is no such file of relations"),
        (["mine.yaml", "fathr"], _RELATIONS, "datasets[0].relations: 'fathr' is not one of: occupation"),
        (["mine.yaml", "father"], _RELATIONS, "datasets: relation 'father' is defined twice; give one of them another"),
        (["mine.yaml", "mine.yaml"], _RELATIONS, "datasets[0].relations: names something twice"),
        (
            ["mine.yaml", "occupation"],
            _RELATIONS.replace("P108", "P106"),
            "datasets: property P106 is asked as 'employer' and 'occupation'; keep one of them",
        ),
        ("mine.yaml", "- {name: [", "mine.yaml: is not valid YAML: line 1, column"),
        ("father", _RELATIONS, "datasets[0].relations: must be a list of at least one text"),
    ],
)  # fmt: skip
def test_a_wrong_file_of_relations_is_named_in_one_line(
    load: Callable[[object], Study], tmp_path: Path, relations: object, file: str, message: str
) -> None:
    (tmp_path / "mine.yaml").write_text(file)
    with pytest.raises(StudyError) as error:
        load(changed("datasets.0.relations", relations))
    assert message.format(folder=tmp_path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_of_relations_goes_with_the_source(refusal: Callable[[object], str], tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(_RELATIONS)
    of_file = {"name": "facts", "import": {"format": "popqa", "path": "p"}, "relations": "mine.yaml"}
    wanted = "datasets[0].relations: a file of relations goes with a dataset of the source"
    assert wanted in refusal(changed("datasets.0", of_file))
