"""Arithmetic over a case's keys, as `harness.yml` writes flops and bytes: `batch*n**3/3`, `2*dot(m, n, k)`.

Names are the case's keys. Operators: `+ - * / // % **`, unary `+ -`, parentheses, `a if b else c` with comparisons (so
that a word such as `case == 'diagonal'` can choose). Functions over numbers: `min max abs ceil floor sqrt log2`; over
a key that holds a list: `sum(m)`, `len(m)`, `min(m)`, `max(m)`, and `dot(m, n, k)`, the sum of products over lists of
equal length (a plain number counts in every term).

Nothing else is accepted, and every intermediate value is bounded, so that a board's text cannot hang its reader.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

from harness.boards.board import Spec
from harness.errors import RequestError, did_you_mean

MAX_LENGTH = 1000
"""Characters of an expression."""
MAX_EXPONENT = 64
MAX_VALUE = 1e100
"""Far above any count of flops or bytes."""

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def evaluate(expression: str, spec: Spec) -> float:
    """The value of `expression` for the case `spec`.

    Raises RequestError, naming the expression, for anything outside the grammar above, an unknown name, a list where a
    number is needed, a division by zero, or a value that is not finite or beyond 1e100.
    """
    tree = _parse(expression)
    try:
        return float(_number(_value(tree, spec, expression), expression))
    except (ArithmeticError, ValueError, TypeError) as error:
        raise _error(expression, str(error)) from error


def check_syntax(expression: str) -> None:
    """Raise RequestError where `evaluate` would for every case: text that is no expression, or an unknown function."""
    for node in ast.walk(_parse(expression)):
        _check_node(node, expression)


def names_in(expression: str) -> frozenset[str]:
    """The case keys that an expression reads."""
    tree = _parse(expression)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in called)


def _error(expression: str, what: str, hint: str = "") -> RequestError:
    shown = expression if len(expression) <= 80 else expression[:77] + "..."
    return RequestError(what, where=f"expression '{shown}'", hint=hint)


def _parse(expression: str) -> ast.expr:
    if len(expression) > MAX_LENGTH:
        raise _error(expression, f"longer than {MAX_LENGTH} characters")
    try:
        return ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _error(expression, f"not an expression: {getattr(error, 'msg', error)}") from error


_GRAMMAR = (ast.operator, ast.unaryop, ast.cmpop, ast.expr_context)


def _check_node(node: ast.AST, expression: str) -> None:
    """Refuse whatever is outside the grammar, naming it."""
    if isinstance(node, _GRAMMAR):
        known = type(node) in _BINARY or type(node) in _UNARY or type(node) in _COMPARE
        if not known and not isinstance(node, ast.expr_context):
            raise _error(expression, f"the operator {type(node).__name__} is not admitted")
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool) or not isinstance(node.value, int | float | str):
            raise _error(expression, f"the constant {node.value!r} is not admitted")
    elif isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
        if name not in _FUNCTIONS:
            known_names = sorted(_FUNCTIONS)
            raise _error(
                expression,
                f"there is no function '{name}' (there are {', '.join(known_names)})",
                did_you_mean(name, known_names),
            )
        if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
            raise _error(expression, f"'{name}' takes plain arguments only")
    elif not isinstance(node, ast.BinOp | ast.UnaryOp | ast.IfExp | ast.Compare | ast.Name):
        raise _error(expression, f"'{ast.unparse(node)}' is not arithmetic over the case's keys")


def _value(node: ast.expr, spec: Spec, expression: str) -> Any:
    """The value of a node: a number, a string or a tuple of numbers."""
    _check_node(node, expression)
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in spec:
            raise _error(
                expression,
                f"'{node.id}' is no key of the case (it has {', '.join(spec) or 'none'})",
                did_you_mean(node.id, list(spec)),
            )
        return spec[node.id]
    if isinstance(node, ast.UnaryOp):
        _check_node(node.op, expression)
        return _UNARY[type(node.op)](_number(_value(node.operand, spec, expression), expression))
    if isinstance(node, ast.BinOp):
        _check_node(node.op, expression)
        left = _number(_value(node.left, spec, expression), expression)
        right = _number(_value(node.right, spec, expression), expression)
        if isinstance(node.op, ast.Pow) and abs(right) > MAX_EXPONENT:
            raise _error(expression, f"the exponent {right} is beyond {MAX_EXPONENT}")
        return _number(_BINARY[type(node.op)](left, right), expression)
    if isinstance(node, ast.Compare):
        return _compare(node, spec, expression)
    if isinstance(node, ast.IfExp):
        chosen = node.body if _value(node.test, spec, expression) else node.orelse
        return _value(chosen, spec, expression)
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    arguments = [_value(argument, spec, expression) for argument in node.args]
    try:
        return _number(_FUNCTIONS[node.func.id](*arguments), expression)
    except (ArithmeticError, ValueError, TypeError) as error:
        raise _error(expression, f"{node.func.id}: {error}") from error


def _compare(node: ast.Compare, spec: Spec, expression: str) -> bool:
    left = _value(node.left, spec, expression)
    for op, comparator in zip(node.ops, node.comparators, strict=True):
        _check_node(op, expression)
        right = _value(comparator, spec, expression)
        if not _COMPARE[type(op)](left, right):
            return False
        left = right
    return True


def _number(value: Any, expression: str) -> int | float:
    """`value` as a bounded real number, or the error."""
    if not isinstance(value, int | float):
        kind = {str: "a word", tuple: "a list", complex: "a complex number"}.get(type(value), "no number")
        hint = "Use sum(…), len(…) or dot(…) on a list." if isinstance(value, tuple) else ""
        raise _error(expression, f"{value!r} is {kind}, not a number", hint)
    if not abs(value) <= MAX_VALUE:  # also catches NaN
        raise _error(expression, "a value is beyond 1e100 or not finite")
    return value


def _reals(values: tuple[Any, ...]) -> list[int | float]:
    """The arguments of `min`, `max` or `sum`: numbers, or one list of them."""
    items = list(values[0]) if len(values) == 1 and isinstance(values[0], tuple) else list(values)
    if not items:
        raise ValueError("no values")
    for item in items:
        if not isinstance(item, int | float):
            raise TypeError(f"{item!r} is not a number")
    return items


def _dot(*values: Any) -> int | float:
    lengths = {len(value) for value in values if isinstance(value, tuple)}
    if len(lengths) != 1:
        raise ValueError("needs at least one list" if not lengths else f"lists of lengths {sorted(lengths)}")
    total: int | float = 0
    for i in range(lengths.pop()):
        term: int | float = 1
        for value in values:
            factor = value[i] if isinstance(value, tuple) else value
            if not isinstance(factor, int | float):
                raise TypeError(f"{factor!r} is not a number")
            term *= factor
            if not abs(term) <= MAX_VALUE:
                raise ValueError("a product is beyond 1e100")
        total += term
    return total


def _len(value: Any) -> int:
    if not isinstance(value, tuple):
        raise TypeError(f"{value!r} is not a list")
    return len(value)


_FUNCTIONS: dict[str, Callable[..., int | float]] = {
    "min": lambda *values: min(_reals(values)),
    "max": lambda *values: max(_reals(values)),
    "sum": lambda *values: sum(_reals(values)),
    "len": _len,
    "dot": _dot,
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "sqrt": math.sqrt,
    "log2": math.log2,
}
