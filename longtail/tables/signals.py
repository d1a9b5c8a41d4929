"""Lake tables of signals beside popularity (SPEC §7, §11): what each decides, gains and costs."""

from __future__ import annotations

import pyarrow as pa

from longtail.tables.schema import (
    DATASET,
    METHOD,
    MODEL,
    POLICY,
    PROMPT,
    TEXTS,
    Column,
    Table,
    column,
    float64,
    int64,
    measure,
    text,
)
from longtail.tables.statistics import (
    EXPANDED,
    N_DECIDING,
    N_QUESTIONS,
    N_RESAMPLES,
    N_SUBJECTS,
    NO_ERROR,
    NO_INTERVAL,
    PARAMETRIC_METHOD,
    RETRIEVAL_METHOD,
    SCOPE,
    STANDARD_ERROR,
)

_POLICY = (
    DATASET,
    PROMPT,
    MODEL,
    PARAMETRIC_METHOD,
    RETRIEVAL_METHOD,
    text(
        "signal",
        "what decides: popularity (its value), confidence (of the parametric answer), or the predicted probability that"
        " the parametric answer is right, from popularity_relation (log popularity, relation), popularity_confidence"
        " (these and log confidence), consistency (scons, cert), or all (log popularity, relation, scons, cert)",
    ),
    SCOPE,
)
_NUMBERS = pa.list_(pa.float64())
_OF_MIX = (
    "per 1,000 questions, of the answers that the policy chooses; null unless known for every test question"
)
_OF_SIGNAL = (
    "per 1,000 questions, of what the signal needs beside the answer: paraphrases and samples, or for its confidence"
    " the parametric answer to a question that is then retrieved for; 0 if it needs none; null unless known for every"
    " test question"
)


_REFITTED = (
    ", where a fitted policy's deviations are as wide as if models and thresholds were fitted again in each"
)


def _with_ends(name: str, meaning: str, no_interval: Column, given: str = "") -> tuple[Column, ...]:
    """A measure, its percentiles over draws of whole subjects, the reason why it has none; `given`: how they draw."""
    return (
        measure(name, meaning),
        measure(
            f"{name}_ci_low", f"2.5th percentile of {name} over draws of whole subjects{given}{EXPANDED}"
        ),
        measure(
            f"{name}_ci_high", f"97.5th percentile of {name} over draws of whole subjects{given}{EXPANDED}"
        ),
        no_interval,
    )


SIGNAL_TABLES = (
    Table(
        "signal_quality",
        "One row per (dataset, prompt, model, method, signal) whose signal is known for at least one answer.",
        (
            DATASET,
            PROMPT,
            MODEL,
            METHOD,
            text(
                "measured_signal",
                "number that should be higher for right answers: popularity (of the subject, the study's measure),"
                " site_links, confidence (geometric mean of the answer's token probabilities), least_probability,"
                " first_probability, first_margin, mean_entropy (negated), scons, cert, a count in a text (a"
                " count_measure), or popularity_confidence (the probability of a right answer that a logistic regression"
                " predicts from log popularity, log confidence and relation, fitted on other subjects)",
            ),
            int64("n_known", "answers for which the signal is known"),
            int64("n_known_correct", "right ones of these"),
            N_SUBJECTS,
            int64("n_draws", "draws of whole subjects, for the interval"),
            *_with_ends(
                "auroc",
                "share of pairs of a right and a wrong answer where the right one has the higher signal; ties ½; a fitted"
                " signal ranks answers of the same fold only",
                NO_INTERVAL,
            ),
            measure(
                "auroc_within",
                "the same share, over pairs of the same relation alone; null without such a pair",
            ),
            measure(
                "average_precision",
                "mean, over the right answers, of the share right among all answers with at least their signal",
            ),
            measure(
                "brier",
                "mean squared difference of correctness and its probability, which a logistic regression on the signal"
                " predicts from the other subjects' answers (five folds)",
            ),
            measure(
                "calibration_error",
                "mean difference, without sign, between this probability and the share right, over 15 bins of equal"
                " count",
            ),
            text("undefined", "reason why the measures are null; null if they are not", null=True),
        ),
        partitioned_by=("model",),
    ),
    Table(
        "adaptive_signals",
        "One row per (dataset, prompt, model, parametric_method, retrieval_method, signal, threshold_scope).",
        (
            *_POLICY,
            N_QUESTIONS,
            int64("n_compared", "questions of n_questions on which all policies of the pair are compared"),
            int64("n_zero_popularity", "questions left out because popularity is 0, which has no logarithm"),
            int64(
                "n_no_measures",
                "questions with popularity above 0 without scons or cert; they are left out if at least 50 have both",
            ),
            int64(
                "n_no_confidence",
                "questions with popularity above 0 without confidence; they are left out if at least 50 others have it",
            ),
            int64(
                "n_one_outcome",
                "relations of n_compared whose parametric answers are all right or all wrong; the penalty of the"
                " regression keeps their coefficients finite",
            ),
            int64("n_splits", "splits that have test questions; 0 if the signal cannot decide"),
            measure("accuracy", "held-out accuracy of retrieving below the threshold, mean over the splits"),
            measure("accuracy_always", "accuracy of always retrieving, on the same test questions"),
            measure("accuracy_never", "accuracy of never retrieving, on the same test questions"),
            measure(
                "accuracy_fixed", "accuracy of whichever of these two was better on the training questions"
            ),
            measure("share_retrieved", "share of the test questions below their threshold"),
            measure("device_seconds_per_1000", f"seconds of the local devices {_OF_MIX}"),
            measure("cost_usd_per_1000", f"US dollars {_OF_MIX}"),
            measure(
                "answer_latency_ms",
                "milliseconds that one user waits for the answer that the policy chooses: the medians of both methods,"
                " weighted by share_retrieved; null if a method was not timed",
            ),
            measure("signal_tokens_per_1000", f"prompt and new tokens {_OF_SIGNAL}"),
            measure("signal_device_seconds_per_1000", f"seconds of the local devices {_OF_SIGNAL}"),
            measure("signal_cost_usd_per_1000", f"US dollars {_OF_SIGNAL}"),
            measure(
                "signal_latency_ms",
                "milliseconds that one user waits for the paraphrases and samples of a question if they are asked one"
                " after the other, each for the median time of a closed-book answer with their prompt, or for the"
                " parametric answer whose confidence says retrieve; mean over the test questions; 0 if the signal needs"
                " none; null if the prompt was not timed",
            ),
            text("undefined", "reason why the signal cannot decide; null if it can", null=True),
        ),
        partitioned_by=("model",),
    ),
    Table(
        "adaptive_signal_gains",
        "One row per (dataset, prompt, model, parametric_method, retrieval_method, signal, threshold_scope, baseline).",
        (
            *_POLICY,
            text(
                "baseline",
                "policy that is compared with on the same questions: always or never retrieving, fixed (whichever of"
                " them was better on the training questions), popularity_all or popularity_per_relation (thresholds on"
                " popularity)",
            ),
            N_QUESTIONS,
            N_RESAMPLES,
            float64("gain", "held-out accuracy minus that of the baseline, mean over the splits"),
            measure("variance_of_splits", "part of the gain's variance from the drawing of the splits"),
            STANDARD_ERROR,
            N_DECIDING,
            float64(
                "share_departing",
                "share of the held-out questions that only one method answers right for which the two policies decide"
                " differently",
            ),
            NO_ERROR,
        ),
        partitioned_by=("model",),
    ),
    Table(
        "adaptive_signal_rules",
        "One row per (dataset, prompt, model, parametric_method, retrieval_method, signal, threshold_scope, relation).",
        (
            *_POLICY,
            text("relation", "relation that the rule is for; all = questions without a known one"),
            text("signal_prompt", "prompt that asked paraphrases and samples; null = none", null=True),
            N_QUESTIONS,
            column(
                "predictor_names",
                TEXTS,
                "what the probability is predicted from: popularity (by its natural logarithm), consistency (scons),"
                " certainty (cert), confidence (by its natural logarithm, unless it is the signal)",
            ),
            column("predictor_means", _NUMBERS, "mean of each predictor, which standardisation subtracts"),
            column(
                "predictor_deviations",
                _NUMBERS,
                "standard deviation of each predictor, which divides it then",
            ),
            column(
                "rule_coefficients",
                _NUMBERS,
                "coefficients of the logit, or of the signal confidence: the intercept, then one per predictor",
            ),
            float64(
                "threshold_probability",
                "a passage is retrieved below this predicted probability or confidence; infinity = always",
            ),
            *(
                int64(f"n_{side}{name}", f"compared questions {place} the threshold{what}")
                for side, place in (("below", "below"), ("above", "not below"))
                for name, what in (
                    ("", ""),
                    ("_with", " that are right with retrieval"),
                    ("_without", " that are right without retrieval"),
                )
            ),
        ),
        partitioned_by=("model",),
    ),
    Table(
        "policies",
        "One row per (dataset, prompt, model, parametric_method, retrieval_method, policy).",
        (
            *_POLICY[:5],
            POLICY,
            int64(
                "n_decided", "questions on which the policy is compared: all of the pair, or those it decides"
            ),
            measure("policy_share_retrieved", "share of the questions for which the policy retrieves"),
            measure("policy_cost_usd_per_1000", f"US dollars {_OF_MIX}, and of its signal"),
            *_with_ends(
                "policy_accuracy",
                "share that the policy answers right; held-out, where thresholds are fitted",
                NO_INTERVAL,
            ),
            *_with_ends(
                "policy_gain",
                "its accuracy minus that of the better one of never and always retrieving: better on the training"
                " questions, if the policy is fitted on these, else on the same questions",
                text(
                    "no_gain_interval",
                    "reason why policy_gain has no interval; null if it has one",
                    null=True,
                ),
                _REFITTED,
            ),
            *_with_ends(
                "gap_share",
                "part of the way from the better one of never and always, on the same questions, to the oracle; null"
                " where the oracle gains nothing",
                text(
                    "no_gap_interval", "reason why gap_share has no interval; null if it has one", null=True
                ),
                _REFITTED,
            ),
            measure(
                "policy_p_value",
                "two-sided p of policy_gain: random signs of the subjects' differences, stretched for a fitted policy as"
                " its interval is; null for the one that is compared with, for the oracle, and for a fitted policy"
                " without an interval",
            ),
        ),
        partitioned_by=("model",),
    ),
)
