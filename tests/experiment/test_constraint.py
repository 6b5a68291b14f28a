"""Constraint expressions: which features they name, which nodes they let in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmgpu.experiment.constraint import alternatives, feature_names, matches

CASES = [
    ("a", {"a"}, True),
    ("a", {"b"}, False),
    ("a&b", {"a", "b"}, True),
    ("a&b", {"a"}, False),
    ("a,b", {"a"}, False),
    ("a|b", {"b"}, True),
    ("a&b|c", {"c"}, True),
    ("a&(b|c)", {"c"}, False),
    ("a&(b|c)", {"a", "c"}, True),
    ("[a|b]", {"b"}, True),
    ("[a|b]&c", {"b"}, False),
    ("[a*2&b*1]", {"b"}, True),
    ("a*2", {"a"}, True),
    ("a100-80", {"a100-80"}, True),
]


@pytest.mark.parametrize(("constraint", "features", "expected"), CASES)
def test_a_node_is_let_in(constraint, features, expected):
    assert matches(constraint, frozenset(features)) is expected


@pytest.mark.parametrize("constraint", ["a&(b", "a)", "[a|b", "a]", "]a["])
def test_brackets_that_do_not_pair_are_an_error(constraint):
    with pytest.raises(ValueError, match="closed|pair"):
        matches(constraint, frozenset({"a"}))


def test_names_and_alternatives():
    assert feature_names("[a|b]&c*2,d") == ["a", "b", "c", "d"]
    assert alternatives("[a|b]&c") == ["(a)&c", "(b)&c"]
    assert alternatives("a|b") == ["a|b"]
    assert alternatives("[a*2&b*2]") == ["[a*2&b*2]"]


trees = st.recursive(
    st.sampled_from(["a", "b", "c", "d"]),
    lambda inner: st.tuples(inner, st.sampled_from("&|"), inner),
    max_leaves=8,
)


def write(tree):
    return tree if isinstance(tree, str) else f"({write(tree[0])}{tree[1]}{write(tree[2])})"


def holds(tree, features):
    if isinstance(tree, str):
        return tree in features
    left, right = holds(tree[0], features), holds(tree[2], features)
    return (left and right) if tree[1] == "&" else (left or right)


@given(trees, st.frozensets(st.sampled_from("abcd")))
def test_any_expression_means_what_its_tree_means(tree, features):
    assert matches(write(tree), features) is holds(tree, features)


@given(st.text(alphabet="ab&|()[]*2,"), st.frozensets(st.sampled_from("ab")))
def test_any_text_gives_an_answer_or_a_value_error(text, features):
    feature_names(text)
    alternatives(text)
    try:
        matches(text, features)
    except ValueError:
        return
