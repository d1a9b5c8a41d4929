"""The blocks together are the design matrix that the formula means."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from patsy import dmatrix

from longtail.statistics.prediction_fit import ABLATIONS, Questions, blocks, scale_of

FORMULAS = {
    "all": "QCat*p0 + QCat*p1 + QCat*p2",
    "without_popularity": "QCat*p1 + QCat*p2",
    "without_relation": "p0 + p1 + p2",
    "scons_cert": "p1 + p2",
    "cert": "p2",
    "scons": "p1",
}


@st.composite
def drawn_questions(draw: st.DrawFn) -> Questions:
    n = draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 1_000)))
    relation = rng.choice(["author", "capital", "who sang it?"], n)
    predictors = rng.normal(size=(n, 3)).round(draw(st.integers(0, 3)))
    predictors[:, draw(st.integers(0, 2))] *= draw(st.sampled_from([0.0, 1.0, 1e6]))
    return Questions(relation, rng.uniform(size=n) < 0.5, predictors)


@settings(max_examples=40, deadline=None)
@given(drawn_questions(), st.sampled_from(ABLATIONS))
def test_blocks_span_what_the_formula_spans(questions: Questions, ablation: object) -> None:
    parts = blocks(questions, ablation, scale_of(questions.predictors))
    assert sum(len(part.correct) for part in parts) == len(questions.correct)
    assert sum(int(part.correct.sum()) for part in parts) == questions.correct.sum()
    assert [part.relation for part in parts] == (
        sorted(set(questions.relation)) if ablation.by_relation else ["all"]
    )
    assert all((part.design[:, 0] == 1).all() for part in parts)
    whole = np.zeros((len(questions.correct), sum(part.design.shape[1] for part in parts)))
    for number, part in enumerate(parts):
        rows = questions.relation == part.relation if ablation.by_relation else slice(None)
        width = part.design.shape[1]
        whole[rows, number * width : (number + 1) * width] = part.design
    named = {
        "QCat": questions.relation,
        **dict(zip(("p0", "p1", "p2"), standardised(questions).T, strict=True)),
    }
    formula = np.asarray(dmatrix(FORMULAS[ablation.name], named))
    rank = np.linalg.matrix_rank(whole)
    assert np.linalg.matrix_rank(formula) == rank
    assert np.linalg.matrix_rank(np.column_stack([whole, formula])) == rank


def standardised(questions: Questions) -> np.ndarray:
    return scale_of(questions.predictors).standardised(questions.predictors)


@settings(max_examples=40, deadline=None)
@given(drawn_questions())
def test_predictors_are_standardised_or_zero(questions: Questions) -> None:
    found = standardised(questions)
    varies = np.ptp(questions.predictors, axis=0) > 0
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(found.std(axis=0)[varies], 1, rtol=1e-9)
    assert (found[:, ~varies] == 0).all()
