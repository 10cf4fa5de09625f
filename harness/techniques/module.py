"""A parsed source with its names: every node with its place, every binding, every call of its functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Condition:
    """A test that must hold, or must not, for a place to be reached."""

    test: ast.expr
    holds: bool

    def __str__(self) -> str:
        text = ast.unparse(self.test)
        return text if self.holds else f"not ({text})"


@dataclass(eq=False)
class Scope:
    """A module or a function. `parameters` are in order, each with its default."""

    node: ast.Module | FunctionNode
    parent: Scope | None = None
    parameters: dict[str, ast.expr | None] = field(default_factory=dict)
    parameter_lines: dict[str, int] = field(default_factory=dict)
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    returns: list[tuple[ast.expr, Place]] = field(default_factory=list)
    is_method: bool = False

    @property
    def name(self) -> str:
        return getattr(self.node, "name", "")

    @property
    def decorators(self) -> list[ast.expr]:
        return getattr(self.node, "decorator_list", [])


@dataclass(frozen=True)
class Place:
    """Where a node stands: its scope, the conditions around it and the loops, outermost first."""

    scope: Scope
    conditions: tuple[Condition, ...] = ()
    loops: tuple[ast.For | ast.While, ...] = ()


@dataclass(frozen=True)
class Binding:
    """A value given to a name; `element` is the path into the value for an unpacked target, `value` None for what no
    expression gives (a loop's variable, an augmented assignment)."""

    value: ast.expr | None
    element: tuple[int, ...]
    line: int
    place: Place


@dataclass(frozen=True)
class CallSite:
    """Arguments that reach a function of the module."""

    arguments: list[ast.expr]
    keywords: list[ast.keyword]
    place: Place


class Module:
    """`nodes` holds every expression and statement with its place, in the order of the text."""

    def __init__(self, tree: ast.Module) -> None:
        self.root = Scope(tree)
        self.nodes: list[tuple[ast.AST, Place]] = []
        self.imports: dict[str, str] = {}
        self.functions: dict[str, Scope] = {}
        self.constructors: dict[str, Scope] = {}
        self.attributes: dict[str, list[Binding]] = {}
        self.calls: dict[str, list[CallSite]] = {}
        self.read: set[str] = set()
        self._block(tree.body, Place(self.root), class_name="")
        for node, place in self.nodes:
            self._note_call(node, place)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self.read.add(node.id)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                self.read.add(node.attr)

    def name_of(self, node: ast.AST) -> str:
        """The dotted name of an expression with imports written out; empty for what has none."""
        if isinstance(node, ast.Name):
            return self.imports.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            base = self.name_of(node.value)
            return f"{base}.{node.attr}" if base else ""
        if isinstance(node, ast.Subscript | ast.Call):  # kernel[grid](…), object().method
            return self.name_of(node.value if isinstance(node, ast.Subscript) else node.func)
        return ""

    def named_calls(self) -> Iterator[tuple[ast.Call, str, Place]]:
        for node, place in self.nodes:
            if isinstance(node, ast.Call):
                yield node, self.name_of(node.func), place

    def is_kernel(self, scope: Scope) -> bool:
        """Whether a function is compiled for the device: it, or one around it, is decorated by a kernel language."""
        here: Scope | None = scope
        while here is not None:
            for decorator in here.decorators:
                name = self.name_of(decorator)
                if name.endswith(("triton.jit", "gluon.jit", "helion.kernel", "cute.kernel", "cute.jit")):
                    return True
            here = here.parent
        return False

    # -- building ---------------------------------------------------------------------------------------------------

    def _block(self, body: list[ast.stmt], place: Place, class_name: str) -> None:
        for statement in body:
            self._statement(statement, place, class_name)

    def _statement(self, node: ast.stmt, place: Place, class_name: str) -> None:
        self.nodes.append((node, place))
        match node:
            case ast.Import():
                for alias in node.names:
                    self.imports[alias.asname or alias.name.split(".")[0]] = (
                        alias.name if alias.asname else alias.name.split(".")[0]
                    )
            case ast.ImportFrom():
                for alias in node.names:
                    self.imports[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for decorator in node.decorator_list:
                    self._expression(decorator, place)
                self._function(node, place, class_name)
            case ast.ClassDef():
                self._block(node.body, place, class_name=node.name)
            case ast.If():
                self._expression(node.test, place)
                self._block(node.body, _if(place, node.test, True), class_name)
                self._block(node.orelse, _if(place, node.test, False), class_name)
            case ast.For() | ast.AsyncFor() | ast.While():
                inner = place
                if not isinstance(node, ast.AsyncFor):
                    inner = replace(place, loops=(*place.loops, node))
                if isinstance(node, ast.While):
                    self._expression(node.test, place)
                else:
                    self._expression(node.iter, place)
                    self._bind(node.target, None, node.lineno, place, class_name)
                self._block(node.body, inner, class_name)
                self._block(node.orelse, place, class_name)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self._expression(item.context_expr, place)
                    if item.optional_vars is not None:
                        self._bind(item.optional_vars, None, node.lineno, place, class_name)
                self._block(node.body, place, class_name)
            case ast.Try():
                self._block(node.body, place, class_name)
                for handler in node.handlers:
                    self._block(handler.body, place, class_name)
                self._block(node.orelse, place, class_name)
                self._block(node.finalbody, place, class_name)
            case ast.Match():
                self._expression(node.subject, place)
                for case in node.cases:
                    self._block(case.body, place, class_name)
            case ast.Assign():
                self._expression(node.value, place)
                for target in node.targets:
                    self._bind(target, node.value, node.lineno, place, class_name)
            case ast.AnnAssign():
                if node.value is not None:
                    self._expression(node.value, place)
                    self._bind(node.target, node.value, node.lineno, place, class_name)
            case ast.AugAssign():
                self._expression(node.target, place)
                self._expression(node.value, place)
                self._bind(node.target, None, node.lineno, place, class_name)
            case ast.Return():
                if node.value is not None:
                    self._expression(node.value, place)
                    place.scope.returns.append((node.value, place))
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self._expression(child, place)

    def _function(self, node: FunctionNode, place: Place, class_name: str = "") -> None:
        scope = Scope(node, place.scope, is_method=bool(class_name))
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
        for argument, default in zip(positional, defaults + list(arguments.defaults), strict=True):
            scope.parameters[argument.arg] = default
            scope.parameter_lines[argument.arg] = argument.lineno
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            scope.parameters[argument.arg] = default
            scope.parameter_lines[argument.arg] = argument.lineno
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                self._expression(default, place)
        if isinstance(node, ast.Lambda):
            self._expression(node.body, Place(scope, place.conditions))
            return
        self.functions.setdefault(node.name, scope)
        if class_name and node.name == "__init__":
            self.constructors[class_name] = scope
        self._block(node.body, Place(scope, place.conditions), class_name="")

    def _expression(self, node: ast.expr, place: Place) -> None:
        self.nodes.append((node, place))
        if isinstance(node, ast.IfExp):
            self._expression(node.test, place)
            self._expression(node.body, _if(place, node.test, True))
            self._expression(node.orelse, _if(place, node.test, False))
        elif isinstance(node, ast.Lambda):
            self._function(node, place)
        else:
            if isinstance(node, ast.NamedExpr):
                self._bind(node.target, node.value, node.lineno, place, "")
            for child in ast.iter_child_nodes(node):
                self._inside(child, place)

    def _inside(self, node: ast.AST, place: Place) -> None:
        """Children that are no expressions (keywords, comprehensions) hold expressions of their own."""
        if isinstance(node, ast.expr):
            self._expression(node, place)
        else:
            for child in ast.iter_child_nodes(node):
                self._inside(child, place)

    def _bind(
        self,
        target: ast.expr,
        value: ast.expr | None,
        line: int,
        place: Place,
        class_name: str,
        path: tuple[int, ...] = (),
    ) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            parts = value.elts if isinstance(value, ast.Tuple | ast.List) and not path else None
            if parts is not None and (len(parts) != len(target.elts) or any(isinstance(p, ast.Starred) for p in parts)):
                parts, value = None, None
            for position, part in enumerate(target.elts):
                if parts is not None:
                    self._bind(part, parts[position], line, place, class_name)
                else:
                    self._bind(part, value, line, place, class_name, (*path, position))
        elif isinstance(target, ast.Name):
            binding = Binding(value, path, line, place)
            place.scope.bindings.setdefault(target.id, []).append(binding)
            if class_name:
                self.attributes.setdefault(target.id, []).append(binding)
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
            self.attributes.setdefault(target.attr, []).append(Binding(value, path, line, place))

    def _note_call(self, node: ast.AST, place: Place) -> None:
        if isinstance(node, ast.Call):
            callee = node.func.value if isinstance(node.func, ast.Subscript) else node.func
            name = callee.id if isinstance(callee, ast.Name) else getattr(callee, "attr", "")
            if name in self.functions or name in self.constructors:
                self.calls.setdefault(name, []).append(CallSite(node.args, node.keywords, place))
        elif isinstance(node, ast.Tuple) and len(node.elts) == 2:  # (partition, (arguments…)) of a warp_specialize
            function, arguments = node.elts
            if isinstance(function, ast.Name) and function.id in self.functions and isinstance(arguments, ast.Tuple):
                self.calls.setdefault(function.id, []).append(CallSite(arguments.elts, [], place))


def _if(place: Place, test: ast.expr, holds: bool) -> Place:
    return replace(place, conditions=(*place.conditions, Condition(test, holds)))
