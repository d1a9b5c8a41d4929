"""Scores against one forward pass a candidate, and candidates' tokens at the seam with their prompt."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from tiny_models import ARCHITECTURES, tiny

from longtail.generation.backends.base import CandidateScore, Failure, Scored
from longtail.generation.backends.hf import TransformersBackend
from longtail.generation.backends.local.loading import load_model
from longtail.generation.backends.local.scoring import CandidateTokens, Continuation, tree_size
from longtail.generation.tasks.candidate_answers import rank_candidates

TOLERANCE = 1e-4
PROMPTS = ["Q: abc de? A:", "Q: abc de fgh? A:", "Q: fa? A:"]
CANDIDATES = [" abc", " abd", " abc de", " .", " Q: fgh ab", "", " abc"]


class BruteForce:
    """Each candidate by a forward pass over prompt and candidate, split as the tokenizer splits the whole."""

    def __init__(self, path: Path | str) -> None:
        self._loaded = load_model(tiny(path))

    def score(self, prompt: str, candidate: str) -> tuple[float, int]:
        before, whole = self._loaded.encode([prompt, prompt + candidate])
        same = [a == b for a, b in zip(before, whole, strict=False)]
        seam = same.index(False) if False in same else len(before)
        if seam == len(whole):
            return 0.0, 0
        with torch.inference_mode():
            logits = self._loaded.model(torch.tensor([whole])).logits[0].double()
        found = logits.log_softmax(-1)[torch.arange(seam - 1, len(whole) - 1), whole[seam:]]
        return float(found.sum()), len(whole) - seam


@pytest.mark.parametrize("name", [*ARCHITECTURES, "sandbox:s"])
def test_scores_are_those_of_one_forward_pass_each(folders: dict[str, Path], name: str) -> None:
    path = name if ":" in name else folders[name]
    brute = BruteForce(path)
    for found, prompt in zip(
        TransformersBackend(tiny(path)).score(PROMPTS, [CANDIDATES] * 3), PROMPTS, strict=True
    ):
        assert isinstance(found, Scored)
        for score, candidate in zip(found.scores, CANDIDATES, strict=True):
            expected, n = brute.score(prompt, candidate)
            assert score.log_likelihood == pytest.approx(expected, abs=TOLERANCE)
            assert score.n_tokens == n
        assert found.scores[5] == CandidateScore(0.0, 0)
        assert found.scores[0] == found.scores[-1]
        assert found.new_tokens == sum(score.n_tokens for score in found.scores)
        assert found.prompt_tokens > 0 < found.latency_ms


@pytest.mark.parametrize("prompt", ["Q: abc A: ", "Q: a", "a", "Q: é", "Q: b"])
def test_a_seam_that_melts_is_scored_from_where_the_tokens_part(
    folders: dict[str, Path], prompt: str
) -> None:
    brute = BruteForce(folders["gpt2"])
    candidates = ["bc", " abc", "gh de", "\n\n", "::", "\n"]
    found = TransformersBackend(tiny(folders["gpt2"])).score([prompt], [candidates])[0]
    assert isinstance(found, Scored)
    for score, candidate in zip(found.scores, candidates, strict=True):
        expected, n = brute.score(prompt, candidate)
        assert score.log_likelihood == pytest.approx(expected, abs=TOLERANCE)
        assert score.n_tokens == n


def test_a_long_prompt_is_cut_for_its_longest_candidate(folders: dict[str, Path]) -> None:
    backend = TransformersBackend(tiny(folders["opt"]))
    long = "x" * 300 + " A:"
    candidates = [" abc", " abc de fgh ab"]
    (short,) = backend.score(["Q: A:"], [candidates])
    assert isinstance(short, Scored)
    longest = max(score.n_tokens for score in short.scores)
    kept = "x" * 300
    found = backend.score([long, kept + " A:", "Q: A:"], [candidates, candidates, ["y" * 200]])
    assert isinstance(found[0], Scored)
    assert isinstance(found[1], Scored)
    assert found[0].scores == found[1].scores
    assert 0 < found[1].n_truncated_tokens < found[0].n_truncated_tokens + len(" A:")
    assert all(score.log_likelihood < 0 for score in found[0].scores)
    assert isinstance(found[2], Failure)
    assert "no room" in found[2].reason
    assert longest > 2


def test_of_candidates_that_tokenise_alike_the_first_wins(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders["llama"], tmp_path / "lower_case"))
    rules = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    (folder / "tokenizer.json").write_text(json.dumps(rules | {"normalizer": {"type": "Lowercase"}}), "utf-8")
    (found,) = TransformersBackend(tiny(folder)).score(PROMPTS[:1], [[" abd", " Abc", " abc", " ABC"]])
    assert isinstance(found, Scored)
    assert len({score.log_likelihood for score in found.scores[1:]}) == 1
    assert [place for place in rank_candidates(found.scores, 4) if place] == [1, 2, 3]


def test_empty_asks(folders: dict[str, Path]) -> None:
    backend = TransformersBackend(tiny(folders["llama"]))
    assert backend.score([], []) == []
    (nothing,) = backend.score(["Q: a A:"], [[]])
    assert isinstance(nothing, Scored)
    assert nothing.scores == ()


def test_targets_of_the_same_candidates_are_tokenised_once() -> None:
    asked: list[tuple[str, ...]] = []

    def targets(texts: tuple[str, ...]) -> list[Continuation]:
        asked.append(texts)
        return [Continuation((len(text),)) for text in texts]

    tokens = CandidateTokens(None, targets)
    found = [tokens.continuations("q", [1, 2], own) for own in (["a", "bc"], ("a", "bc"), ["a"])]
    assert found == [(2, [Continuation((1,)), Continuation((2,))])] * 2 + [(2, [Continuation((1,))])]
    assert asked == [("a", "bc"), ("a",)]


def test_the_size_of_a_tree_is_what_its_widest_level_holds() -> None:
    own = [Continuation((1, 2, 3)), Continuation((1, 2, 4)), Continuation((1, 5, 6)), Continuation((7,))]
    # level 1 holds the beginning (1), level 2 (1, 2) and (1, 5); leaves hold nothing
    assert tree_size(own) == 4
    assert tree_size([Continuation((7,)), Continuation(())]) == 0
    assert tree_size([]) == 0
