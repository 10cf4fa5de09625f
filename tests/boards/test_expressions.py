from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.boards.board import Spec
from harness.boards.expressions import check_syntax, evaluate, names_in
from harness.errors import RequestError

CHOLESKY: Spec = {"batch": 16, "n": 32, "cond": 2, "case": "diagonal", "flag": True}
GROUP: Spec = {"m": (96, 128), "n": (128, 256), "k": (256, 512), "g": 2, "empty": ()}


@pytest.mark.parametrize(
    ("expression", "spec", "value"),
    [
        ("batch*n**3/3", CHOLESKY, 16 * 32768 / 3),
        ("6*batch*n**2", CHOLESKY, 98304),
        (" -n + +2 ", CHOLESKY, -30),
        ("7 // 2 + 7 % 4", CHOLESKY, 6),
        ("max(batch, n) - min(batch, n)", CHOLESKY, 16),
        ("ceil(n/5) + floor(n/5)", CHOLESKY, 13),
        ("sqrt(batch) * log2(n) * abs(-1)", CHOLESKY, 20),
        ("4*n if case == 'diagonal' else 8*n", CHOLESKY, 128),
        ("1 if 0 < cond <= 1 else 5", CHOLESKY, 5),
        ("flag * n", CHOLESKY, 32),
        ("1e3", CHOLESKY, 1000),
        ("2*dot(m, n, k)", GROUP, 2 * (96 * 128 * 256 + 128 * 256 * 512)),
        ("dot(m, 2)", GROUP, 448),
        ("sum(m) + len(k) + max(n) + min(n)", GROUP, 224 + 2 + 256 + 128),
        ("sum(g, 1)", GROUP, 3),
    ],
)
def test_values(expression: str, spec: Spec, value: float) -> None:
    check_syntax(expression)
    assert evaluate(expression, spec) == value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "not an expression"),
        ("2 *", "not an expression"),
        ("n\x00", "not an expression"),
        ("batchs*n", "'batchs' is no key of the case"),
        ("m*2", "is a list, not a number"),
        ("case", "is a word, not a number"),
        ("case + 1", "is a word"),
        ("n.real", "'n.real' is not arithmetic"),
        ("[n]", "is not arithmetic"),
        ("(lambda: 1)()", "no function"),
        ("__import__('os')", "there is no function '__import__'"),
        ("m[0]", "is not arithmetic"),
        ("n @ n", "operator MatMult"),
        ("n << 2", "operator LShift"),
        ("~n", "operator Invert"),
        ("n in m", "operator In"),
        ("True", "constant True"),
        ("2j", "constant 2j"),
        ("n and 1", "is not arithmetic"),
        ("1/0", "division by zero"),
        ("2**65", "exponent 65 is beyond"),
        ("n**64**2", "exponent 4096 is beyond"),
        ("(10**60)*(10**60)", "beyond 1e100"),
        ("1e400", "beyond 1e100"),
        ("(-8)**0.5", "a complex number"),
        ("sqrt(-1)", "sqrt:"),
        ("log2(0)", "log2:"),
        ("min()", "min: no values"),
        ("sum(empty)", "sum: no values"),
        ("len(g)", "len: 2 is not a list"),
        ("dot(g)", "needs at least one list"),
        ("dot(m, empty)", "lists of lengths [0, 2]"),
        ("ceil(m)", "ceil:"),
        ("max(m, 1)", "is not a number"),
        ("min(n, key=1)", "plain arguments only"),
        ("sum(*m)", "plain arguments only"),
        ("1" * 1001, "longer than 1000"),
        ("(" * 300 + "1" + ")" * 300, "not an expression"),
    ],
)
def test_errors_name_the_expression(expression: str, message: str) -> None:
    spec = {**CHOLESKY, "m": GROUP["m"], "g": 2, "empty": ()}
    with pytest.raises(RequestError) as caught:
        evaluate(expression, spec)
    assert message in caught.value.what
    assert caught.value.where.startswith(f"expression '{expression[:60]}")


@pytest.mark.parametrize("expression", ["foo(n)", "n.x", "n << 1", "2 *", "True"])
def test_syntax_is_refused_without_a_case(expression: str) -> None:
    with pytest.raises(RequestError):
        check_syntax(expression)


def test_a_near_name_is_suggested() -> None:
    with pytest.raises(RequestError) as caught:
        evaluate("batchs", CHOLESKY)
    assert caught.value.hint == "Did you mean 'batch'?"


def test_names() -> None:
    assert names_in("2*dot(m, n) + ceil(k/16)") == {"m", "n", "k"}


atoms = st.sampled_from(["n", "m", "case", "2", "1.5", "'x'", "0", "1e99"])
expressions = st.recursive(
    atoms,
    lambda inner: (
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%", "**", "<", "=="]), inner).map(
            lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
        )
        | st.tuples(st.sampled_from(["min", "sum", "dot", "ceil", "len", "sqrt", "exec"]), inner).map(
            lambda parts: f"{parts[0]}({parts[1]})"
        )
    ),
    max_leaves=12,
)


@given(expressions | st.text(max_size=30))
def test_any_text_gives_a_finite_number_or_one_error(expression: str) -> None:
    try:
        value = evaluate(expression, {"n": 7, "m": (1, 2, 3), "case": "x"})
    except RequestError:
        return
    assert math.isfinite(value)
