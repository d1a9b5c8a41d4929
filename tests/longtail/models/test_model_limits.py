"""Grouping by prefix: it covers all rows, loses no tokens, and saves as much as any grouping can."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from longtail.models.limits import Group, common_length, group_by_prefix

PROMPTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=9), min_size=1, max_size=24)


def saved(groups: list[Group], cost: int) -> int:
    return sum((len(g.rows) - 1) * g.n_shared - cost for g in groups if g.n_shared)


@settings(deadline=None)
@given(PROMPTS, st.integers(0, 12))
def test_groups_share_what_they_say_and_leave_each_prompt_a_token(
    prompts: list[list[int]], cost: int
) -> None:
    groups = group_by_prefix(prompts, cost)
    assert sorted(row for group in groups for row in group.rows) == list(range(len(prompts)))
    for group in groups:
        beginnings = {tuple(prompts[row][: group.n_shared]) for row in group.rows}
        assert len(beginnings) == 1
        assert all(len(prompts[row]) > group.n_shared for row in group.rows)
        assert (len(group.rows) > 1) == (group.n_shared > 0)
    assert saved(groups, cost) >= 0


@settings(deadline=None)
@given(PROMPTS, st.integers(0, 12))
@example([[1, 0], [1, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0, 1, 0, 0], [1, 0, 0, 1, 0, 0]], 1)
def test_no_choice_of_beginnings_saves_more(prompts: list[list[int]], cost: int) -> None:
    """Against every choice of beginnings, where each prompt shares the longest chosen one that it goes on behind."""

    def best(beginning: list[int], around: int) -> int:
        n = len(beginning)
        behind = [prompt for prompt in prompts if len(prompt) > n and prompt[:n] == beginning]
        if len(behind) < 2:
            return len(behind) * around
        found = []
        for shared, price in [(around, 0), *([(n, n + cost)] if n > around else [])]:
            ended = sum(len(prompt) == n + 1 for prompt in behind)
            tokens = {prompt[n] for prompt in behind if len(prompt) > n + 1}
            found.append(ended * shared + sum(best([*beginning, token], shared) for token in tokens) - price)
        return max(found)

    assert saved(group_by_prefix(prompts, cost), cost) == best([], 0)


def test_questions_under_their_demonstrations_form_a_group_each() -> None:
    demonstrations = [list(range(100 * r, 100 * r + 80)) for r in range(3)]
    prompts = [[*demonstrations[i % 3], 1000 + i, 7] for i in range(30)]
    groups = group_by_prefix(prompts)
    assert sorted((len(group.rows), group.n_shared) for group in groups) == [(10, 80)] * 3


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), max_size=40), st.lists(st.integers(0, 3), max_size=40))
def test_the_common_beginning_is_found(one: list[int], other: list[int]) -> None:
    expected = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    assert common_length(one, other) == (min(len(one), len(other)) if expected is None else expected)
