"""What an expression can be: every constant that reaches it, with the line it stands on and the conditions on the way.

Names are followed through assignments, unpackings, attributes of `self`, parameters (to every call of the function and
to its default), return values of the module's own functions and both branches of `a if c else b`. What is no constant
stays the text of its expression. Nothing is run.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from harness.techniques.module import Binding, CallSite, Condition, Module, Place, Scope

MOST_STEPS = 24
"""How many names are followed one after the other."""
MOST_VALUES = 64
"""How many values one expression may have; further ones are dropped."""
LARGEST_EXPONENT = 64


@dataclass(frozen=True)
class Value:
    """One possible value: `constant` is None unless `is_constant` (None itself is a constant too)."""

    is_constant: bool
    constant: Any
    text: str
    line: int
    conditions: tuple[Condition, ...]

    @property
    def when(self) -> str:
        return " and ".join(dict.fromkeys(map(str, self.conditions)))


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Div: operator.truediv,
}
_FOLDED_CALLS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "int": int, "abs": abs}


class Values:
    """Resolves expressions of one module. `followed` collects the bindings that some resolution went through."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self.followed: set[int] = set()

    def of(self, expression: ast.expr, place: Place) -> list[Value]:
        """Every value, in the order of the text, without repetitions."""
        found = self._resolve(expression, place, (), MOST_STEPS)
        return list({(v.text, v.line, v.conditions): v for v in found}.values())[:MOST_VALUES]

    def constants(self, expression: ast.expr, place: Place) -> list[Any]:
        return [value.constant for value in self.of(expression, place) if value.is_constant]

    def argument(self, site: CallSite, scope: Scope, name: str) -> list[tuple[ast.expr, Place]]:
        """The expressions that a call passes for a parameter; empty when it passes none."""
        for keyword in site.keywords:
            if keyword.arg == name:
                return [(keyword.value, site.place)]
        names = list(scope.parameters)
        if scope.is_method and names:
            names = names[1:]
        for position, argument in enumerate(site.arguments):
            if isinstance(argument, ast.Starred):
                break
            if position < len(names) and names[position] == name:
                return [(argument, site.place)]
        found = []
        for keyword in site.keywords:
            if keyword.arg is None:
                found += [entry[:2] for entry in self.entries(keyword.value, site.place) if entry[2] == name]
        return found

    def entries(self, expression: ast.expr, place: Place, steps: int = MOST_STEPS) -> list[tuple[ast.expr, Place, str]]:
        """The items of a dictionary: value, its place and its key, of every dictionary that the expression can be."""
        if steps == 0:
            return []
        if isinstance(expression, ast.Dict):
            return [
                (value, place, key.value)
                for key, value in zip(expression.keys, expression.values, strict=True)
                if isinstance(key, ast.Constant) and isinstance(key.value, str)
            ]
        if isinstance(expression, ast.Call) and self._module.name_of(expression.func) == "dict":
            return [(keyword.value, place, keyword.arg) for keyword in expression.keywords if keyword.arg]
        if isinstance(expression, ast.IfExp):
            return self.entries(expression.body, _when(place, expression.test, True), steps - 1) + self.entries(
                expression.orelse, _when(place, expression.test, False), steps - 1
            )
        if isinstance(expression, ast.Name):
            found = []
            for binding in self._bindings(expression.id, place.scope):
                if binding.value is not None and not binding.element:
                    self.followed.add(id(binding))
                    found += self.entries(binding.value, binding.place, steps - 1)
            return found
        return []

    def written_out(self, expression: ast.expr, place: Place) -> list[ast.List]:
        """The list displays that an expression can be: itself, a name's, or what a function of the module returns."""
        if isinstance(expression, ast.List):
            return [expression]
        if isinstance(expression, ast.Name):
            bindings = [b for b in self._bindings(expression.id, place.scope) if b.value is not None and not b.element]
            return [each for b in bindings if b.value is not None for each in self.written_out(b.value, b.place)]
        if isinstance(expression, ast.Call) and isinstance(expression.func, ast.Name):
            scope = self._module.functions.get(expression.func.id)
            returns = [] if scope is None else scope.returns
            return [each for value, _ in returns if isinstance(value, ast.List) for each in [value]]
        return []

    # -- resolution -------------------------------------------------------------------------------------------------

    def _resolve(
        self, node: ast.expr, place: Place, path: tuple[int, ...], steps: int, seen: frozenset[int] = frozenset()
    ) -> list[Value]:
        opaque = [Value(False, None, _text(node, path), node.lineno, place.conditions)]
        if steps == 0 or id(node) in seen:
            return opaque
        seen |= {id(node)}

        def resolve(expression: ast.expr, at: Place, into: tuple[int, ...] = ()) -> list[Value]:
            return self._resolve(expression, at, into, steps - 1, seen)

        match node:
            case ast.Constant():
                return opaque if path else [_constant(node.value, node.lineno, place.conditions)]
            case ast.Tuple() | ast.List() if path:
                position = path[0]
                if position < len(node.elts) and not any(isinstance(part, ast.Starred) for part in node.elts):
                    return resolve(node.elts[position], place, path[1:])
                return opaque
            case ast.Tuple() | ast.List():
                return self._sequence(node, place, resolve) or opaque
            case ast.IfExp():
                return resolve(node.body, _when(place, node.test, True), path) + resolve(
                    node.orelse, _when(place, node.test, False), path
                )
            case ast.Name():
                return self._name(node, place, path, resolve) or opaque
            case ast.Attribute(value=ast.Name(id="self")):
                found = [
                    value
                    for binding in self._module.attributes.get(node.attr, [])
                    for value in self._bound(binding, place, path, resolve)
                ]
                return found or opaque
            case ast.Subscript(slice=ast.Constant(value=int(position))) if position >= 0:
                found = resolve(node.value, place, (position, *path))
                return found if all(value.is_constant for value in found) else opaque
            case ast.Subscript(slice=ast.Constant(value=str(key))):
                found = []
                for value, at, name in self.entries(node.value, place):
                    if name == key:
                        found += resolve(value, _under(at, place), path)
                return found or opaque
            case ast.BinOp() | ast.UnaryOp() | ast.Call() if not path:
                return self._folded(node, place, resolve) or self._called(node, place, path, resolve) or opaque
            case ast.Call():
                return self._called(node, place, path, resolve) or opaque
        return opaque

    def _sequence(
        self, node: ast.Tuple | ast.List, place: Place, resolve: Callable[..., list[Value]]
    ) -> list[Value] | None:
        parts = [resolve(part, place) for part in node.elts]
        if not all(len(part) == 1 and part[0].is_constant for part in parts):
            return None
        constants = [part[0].constant for part in parts]
        whole = tuple(constants) if isinstance(node, ast.Tuple) else constants
        return [_constant(whole, node.lineno, place.conditions)]

    def _name(
        self, node: ast.Name, place: Place, path: tuple[int, ...], resolve: Callable[..., list[Value]]
    ) -> list[Value]:
        scope = self._scope_of(node.id, place.scope)
        if scope is None:
            return []
        found: list[Value] = []
        for binding in scope.bindings.get(node.id, []):
            found += self._bound(binding, place, path, resolve)
        if node.id in scope.parameters:
            passed = self.passed(scope, node.id)
            for expression, at in passed:
                found += resolve(expression, _under(at, place), path)
            default = scope.parameters[node.id]
            if not passed and default is not None and scope.parent is not None:
                found += resolve(default, _under(Place(scope.parent), place), path)
        return found

    def passed(self, scope: Scope, name: str) -> list[tuple[ast.expr, Place]]:
        """What every call of a function passes for a parameter."""
        names = [scope.name] + [key for key, value in self._module.constructors.items() if value is scope]
        return [
            pair
            for called in names
            for site in self._module.calls.get(called, [])
            for pair in self.argument(site, scope, name)
        ]

    def _bound(
        self, binding: Binding, place: Place, path: tuple[int, ...], resolve: Callable[..., list[Value]]
    ) -> list[Value]:
        if binding.value is None:
            return []
        found: list[Value] = resolve(binding.value, _under(binding.place, place), (*binding.element, *path))
        if binding.element and any(not value.is_constant and value.text.startswith("element ") for value in found):
            return []  # unpacked from what is not written out: the name says more than "element 2 of …"
        self.followed.add(id(binding))
        return found

    def _folded(self, node: ast.expr, place: Place, resolve: Callable[..., list[Value]]) -> list[Value]:
        fold: Callable[..., Any]
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            parts, fold = [node.left, node.right], _BINARY[type(node.op)]
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            parts, fold = [node.operand], operator.neg
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            parts, fold = [node.operand], operator.not_
        elif isinstance(node, ast.Call) and self._module.name_of(node.func) in _FOLDED_CALLS and not node.keywords:
            parts, fold = node.args, _FOLDED_CALLS[self._module.name_of(node.func)]
        else:
            return []
        before = set(self.followed)
        values = [resolve(part, place) for part in parts]
        if not all(len(value) == 1 and value[0].is_constant for value in values):
            self.followed = before  # the text is shown as it stands, so its names are not spoken for
            return []
        operands = [value[0].constant for value in values]
        if not all(isinstance(operand, int | float) for operand in operands):
            return []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.LShift) and operands[1] > LARGEST_EXPONENT:
            return []
        try:
            return [_constant(fold(*operands), node.lineno, place.conditions)]
        except (ArithmeticError, TypeError, ValueError):
            return []

    def _called(
        self, node: ast.expr, place: Place, path: tuple[int, ...], resolve: Callable[..., list[Value]]
    ) -> list[Value]:
        """What one of the module's own host functions returns."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return []
        scope = self._module.functions.get(node.func.id)
        if scope is None or self._module.is_kernel(scope):
            return []
        found: list[Value] = []
        for expression, at in scope.returns:
            found += resolve(expression, _under(at, place), path)
        useful = [value for value in found if not value.text.startswith("element ")]
        # A function that only computes something is better named by its call.
        return useful if any(value.is_constant for value in useful) or path else []

    def _bindings(self, name: str, scope: Scope) -> Iterable[Binding]:
        owner = self._scope_of(name, scope)
        return [] if owner is None else owner.bindings.get(name, [])

    def _scope_of(self, name: str, scope: Scope | None) -> Scope | None:
        while scope is not None:
            if name in scope.bindings or name in scope.parameters:
                return scope
            scope = scope.parent
        return None


def _constant(value: Any, line: int, conditions: tuple[Condition, ...]) -> Value:
    text = value if isinstance(value, str) else repr(value)
    return Value(True, value, text, line, conditions)


def _text(node: ast.expr, path: tuple[int, ...]) -> str:
    text = ast.unparse(node)
    return f"element {path[0]} of {text}" if path else text


def _when(place: Place, test: ast.expr, holds: bool) -> Place:
    return Place(place.scope, (*place.conditions, Condition(test, holds)), place.loops)


def _under(inner: Place, outer: Place) -> Place:
    """The place of a value that is reached from another place: both places' conditions hold."""
    extra = tuple(condition for condition in inner.conditions if condition not in outer.conditions)
    return Place(inner.scope, (*outer.conditions, *extra), inner.loops)
