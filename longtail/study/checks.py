"""The rules for a study as a whole."""

from __future__ import annotations

from datetime import UTC, datetime

from longtail.prompt_formats import CLOZE_FORMATS
from longtail.study.backends import IMPORTED
from longtail.study.months import FIRST_MONTH, newest_complete_month
from longtail.study.prompts import CANDIDATES
from longtail.study.reader import Reader
from longtail.study.source import NO_SOURCE, FactSample
from longtail.study.study import Study


def check_whole(read: Reader, study: Study) -> None:
    """Errors: `StudyError` naming the key and what it needs."""
    shared = {d.name for d in study.datasets} & {r.name for r in study.reference_questions}
    if shared:
        raise read.fail("reference_questions", f"{min(shared)!r} is the name of a dataset; choose another")
    for method in study.methods:
        if study.method(method).reads_results and not study.results_read_by(method):
            fusible = ", ".join(one.name for one in study.known_methods if one.can_be_fused)
            raise read.fail(
                "methods",
                f"{method!r} takes the passages of other methods; name at least one of {fusible} beside it",
            )
    names = [dataset.name for dataset in study.datasets]
    for i, dataset in enumerate(study.datasets):
        if dataset.drawn_as and dataset.drawn_as not in names[:i] + names[i + 1 :]:
            raise read.fail(
                f"datasets[{i}].drawn_as", f"{dataset.drawn_as!r} is no other dataset of the study"
            )
    unused = [one.name for one in study.retrievers if one.name not in study.methods]
    if unused:
        raise read.fail("retrievers", f"{unused[0]!r} is not used; name it under methods, or leave it out")
    if not study.answer_prompts and not study.candidate_prompts:
        raise read.fail("prompts", "at least one must ask questions or candidates")
    _check_methods_of_prompts(read, study)
    _check_cloze_formats(read, study)
    if study.source.kind == "rdf_file" and study.popularity.measure == "page_views":
        raise read.fail("popularity.measure", "an rdf_file holds no page views; allowed here: sitelinks")
    if study.source.kind == NO_SOURCE and study.popularity.measure in ("page_views", "sitelinks"):
        raise read.fail(
            "popularity.measure",
            f"without a source nothing else is known; allowed here: {IMPORTED}, or a count",
        )
    if study.source.sample is not None:
        _check_sample(read, study, study.source.sample)
    if study.popularity.measure == "page_views":
        _check_window(read, study)
    if study.popularity.agent == "all" and study.source.views_from == "dump":
        raise read.fail(
            "popularity.agent", "the dumps have page views of users alone; all goes with views_from: api"
        )


def _check_methods_of_prompts(read: Reader, study: Study) -> None:
    """Prompts name methods of the study, and every method has a prompt."""
    for i, prompt in enumerate(study.prompts):
        unknown = [method for method in prompt.methods if method not in study.methods]
        if unknown:
            raise read.fail(
                f"prompts[{i}].methods",
                f"{unknown[0]!r} is not one of the study's: {', '.join(study.methods)}",
            )
        if prompt.methods and not {"questions", CANDIDATES} & {*prompt.generations}:
            raise read.fail(f"prompts[{i}].methods", f"goes with generations: [questions] or [{CANDIDATES}]")
    for method in study.methods:
        scores = any(study.scores_by(prompt, method) for prompt in study.candidate_prompts)
        if not scores and not study.prompts_of(method):
            raise read.fail(
                "prompts", f"none asks questions by method {method!r}; add it under methods of a prompt"
            )
        own = study.method(method)
        if scores and not (own.is_parametric or own.is_fixed or study.retrieve_paraphrases):
            raise read.fail(
                "retrieve_paraphrases",
                f"candidates are scored by method {method!r}, whose passages follow the wording; set it to true",
            )


def _check_cloze_formats(read: Reader, study: Study) -> None:
    """Every model that is asked for candidates has a prompt of its kind."""
    for i, model in enumerate(study.models):
        if study.candidate_prompts and model.generates and not study.cloze_prompts(model):
            format_ = next(name for name, of in CLOZE_FORMATS.items() if of == model.encoder_decoder)
            kind = "an encoder-decoder" if model.encoder_decoder else "not an encoder-decoder"
            raise read.fail(
                "prompts",
                f"none asks models[{i}] for candidates: {model.name} is {kind}, and needs a prompt of format {format_}",
            )


def _check_sample(read: Reader, study: Study, sample: FactSample) -> None:
    """Check that the weights of a sample of facts are available."""
    if not study.datasets_of_source:
        raise read.fail("source.sample", "no dataset is built from the source: there is nothing to sample")
    measure = study.popularity.measure
    if sample.frequency == "popularity" and measure not in ("page_views", "sitelinks"):
        raise read.fail(
            "source.sample.frequency",
            f"popularity.measure {measure} does not cover the source's own facts; choose text, or measure them by"
            " page_views or sitelinks",
        )
    is_dated = sample.frequency == "popularity" and measure == "page_views"
    if is_dated and sample.month is None:
        raise read.fail("source.sample.month", "is missing: the month whose page views weight the sample")
    if sample.month is not None and not is_dated:
        raise read.fail("source.sample.month", "goes with frequency: popularity, measured in page_views")
    newest = _newest_month(study)
    if sample.month is not None and not FIRST_MONTH <= sample.month <= newest:
        raise read.fail(
            "source.sample.month",
            f"{sample.month!r} has no page views; allowed: '{FIRST_MONTH}' to '{newest}'",
        )


def _check_window(read: Reader, study: Study) -> None:
    """The window must be within the months that have page views."""
    newest = _newest_month(study)
    last = study.popularity.last_month or newest
    if not FIRST_MONTH <= last <= newest:
        raise read.fail(
            "popularity.last_month", f"{last!r} has no page views; allowed: '{FIRST_MONTH}' to '{newest}'"
        )
    most = _month_number(last) - _month_number(FIRST_MONTH) + 1
    if study.popularity.n_months > most:
        raise read.fail(
            "popularity.n_months",
            f"{study.popularity.n_months} months up to {last} begin before {FIRST_MONTH}, the first month with"
            f" page views; allowed: 1 to {most}",
        )


def _newest_month(study: Study) -> str:
    """The newest month with page views: the newest complete month; in the sandbox its snapshot, if that is later."""
    newest = newest_complete_month(datetime.now(UTC).date())
    # The sandbox's time is the study's: a machine with a slow clock can run it too.
    return max(newest, study.source.snapshot) if study.source.kind == "sandbox" else newest


def _month_number(month: str) -> int:
    return int(month[:4]) * 12 + int(month[5:])
