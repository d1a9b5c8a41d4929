"""Passages: the texts that retrieval searches (SPEC §4)."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from longtail.errors import SourceError
from longtail.imports.datasets import entity_files_slice
from longtail.imports.formats.collections.cirrus_search import read_articles
from longtail.methods import VERBALISED
from longtail.parsing.line_files import RejectedRows
from longtail.questions.build import one_line
from longtail.relations.relation import Relation, content_of, enumerate_names
from longtail.retrieval.collections import collect_passages
from longtail.retrieval.splitting import passage_row, passages_beside_questions, passages_of
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome
from longtail.study.backends import IMPORTED
from longtail.study.study import Study
from longtail.transfer.downloads import download_dump
from longtail.wikimedia.services import open_services, world_version

_COLLECTIONS = "longtail.retrieval.collections"


def build_passages(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write lake table `passages`: those of the study's collections; without any, articles cut at about 100 words, or
    each subject's triples as one passage.

    Errors: `SourceError` where collections or the source's articles cannot be read, `LakeError` without triples and
    entities.
    """
    if study.collections:
        return collect_passages(study, lake, log)
    source = study.source
    code = code_version(__name__, without=[_COLLECTIONS])
    if source.kind == "sandbox":
        world = (source.seed, source.facts_per_relation, source.snapshot)
        stamp = fingerprint("articles", world, code, world_version(source))
        return lake.materialise("passages", stamp, lambda: _from_articles(study, log))
    tables = ("triples", "entities")
    inputs = [lake.content(table) for table in tables]
    inputs += [lake.content(table, IMPORTED) for table in tables if IMPORTED in lake.partitions(table)]
    statements = content_of(study.relations, "name", "statement")
    stamp = fingerprint(VERBALISED, inputs, code, statements, *entity_files_slice(study))
    return lake.materialise("passages", stamp, lambda: _from_triples(study, lake, log))


def verbalise(relations: Sequence[Relation], subject: str, objects: Mapping[str, Sequence[str]]) -> str:
    """The facts about `subject` as sentences, in the order of `relations`; `objects`: relation name → labels.

    Facts of a relation without a statement are left out.
    """
    return " ".join(
        relation.sentence(subject, enumerate_names(objects[relation.name]))
        for relation in relations
        if relation.statement and objects.get(relation.name)
    )


def _from_articles(study: Study, log: logging.Logger) -> Computed:
    source = study.source
    target = study.home.cache / "dumps" / f"{source.kind}-{source.seed}-{source.facts_per_relation}.json.gz"
    with open_services(source, study.home) as services:
        if services.articles_url is None:
            raise SourceError(f"{study.path}: source {source.kind} offers no articles")
        dump = download_dump(services.client, services.articles_url, target, log)
        rejected = RejectedRows(dump.name)
        rows = [
            passage_row(
                article.entity_id or article.title,
                article.entity_id,
                article.title,
                number,
                text,
                source.kind,
            )
            for article in read_articles(dump, rejected)
            for number, text in enumerate(passages_of(article.text))
        ]
    rows.sort(key=lambda row: (row["entity_id"] or row["title"], row["position"]))
    log.info("passages: %d from articles, %d lines rejected", len(rows), len(rejected.rows))
    return Computed(rows, rejected.rows, {"words_per_passage": _mean_words(rows)})


def _from_triples(study: Study, lake: Lake, log: logging.Logger) -> Computed:
    entities = lake.read_all("entities", ["entity_id", "label"]).to_pylist()
    labels = {entity["entity_id"]: one_line(entity["label"]) for entity in entities}
    facts: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in lake.read_all("triples", ["subject_id", "relation", "object_id"]).to_pylist():
        facts[row["subject_id"]][row["relation"]].add(row["object_id"])
    rows, relations = [], study.relations
    for subject_id in sorted(facts):
        objects = {name: _labels(ids, labels) for name, ids in facts[subject_id].items()}
        text = verbalise(relations, labels.get(subject_id) or "", objects)
        if labels.get(subject_id) and text:
            rows.append(passage_row(subject_id, subject_id, labels[subject_id], 0, text, VERBALISED))
    silent, given = len(facts) - len(rows), passages_beside_questions(study)
    if facts:
        log.info("passages: %d verbalised subjects, %d without label or labelled objects", len(rows), silent)
    if given:
        log.info("passages: %d from files of questions", len(given))
    rows += given
    return Computed(rows, notes={"words_per_passage": _mean_words(rows), "subjects_without_passage": silent})


def _labels(ids: Iterable[str], labels: Mapping[str, str]) -> list[str]:
    """The distinct labels of `ids`, in the order of ids; those without a label are left out."""
    return list(dict.fromkeys(label for i in sorted(ids) if (label := labels.get(i))))


def _mean_words(rows: Sequence[Mapping[str, Any]]) -> float:
    return round(sum(len(row["text"].split()) for row in rows) / max(len(rows), 1), 1)
