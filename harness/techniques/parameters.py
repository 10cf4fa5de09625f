"""Rules for what has a number: warps, stages, tile sizes, split-K, clusters."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from typing import Any

from harness.techniques.finding import Finding, State, Technique
from harness.techniques.module import Module, Place, Scope
from harness.techniques.values import Value, Values

NAMES: tuple[tuple[Technique, re.Pattern[str]], ...] = (
    (Technique.NUM_WARPS, re.compile(r"(num|n|k_?num)?_?warps", re.IGNORECASE)),
    (
        Technique.NUM_STAGES,
        re.compile(r"((num|n|k|ab|a|b|acc|epi|kv|pipe(line)?)_?)*(stages?|buffers)", re.IGNORECASE),
    ),
    (Technique.SPLIT_K, re.compile(r"(num_|n_)?split_?k(_slices)?", re.IGNORECASE)),
    (Technique.CLUSTER, re.compile(r"cluster_(shape|dims?|size)(_mnk?l?)?|num_ctas|ctas_per_cga", re.IGNORECASE)),
    (
        Technique.TILE_SIZE,
        re.compile(
            r"(x|y|r|t)?(block|tile)(_?sizes?)?(_?[a-z0-9]{1,2}|_q|_kv|_head|_rows?|_cols?|_dim)?"
            r"|b[mnk]|t[mnk]|k(block|tile)_?[mnk]|(mma_|cta_)?(tile|tiler)(_shape)?(_mnkl?|_mn)?",
            re.IGNORECASE,
        ),
    ),
)
"""What a parameter is called that holds the number, as a whole name. `GROUP_M` orders tiles and is none of these."""
NOT_LOWER_CASE = re.compile(r"(block|tile|blocks|tiles|b[mnk]|t[mnk]|buffers?|stage|tile_[a-z0-9]|block_id[xyz]?)")
"""Such names in lower case are as often a loop's variable or a tensor; they count only as a call's keyword."""


def technique_of(name: str, *, keyword: bool) -> Technique | None:
    """The technique whose number a name holds, or None."""
    if not keyword and NOT_LOWER_CASE.fullmatch(name):
        return None
    return next((technique for technique, pattern in NAMES if pattern.fullmatch(name)), None)


def find_parameters(module: Module, values: Values) -> Iterator[Finding]:
    yield from _passed_by_keyword(module, values)
    yield from _reaching_a_shape(module, values)
    yield from _defaults(module, values)
    yield from _constants(module, values)


def _passed_by_keyword(module: Module, values: Values) -> Iterator[Finding]:
    """Keywords of launches and configurations, and keys of dictionaries that are passed as such."""
    for node, place in module.nodes:
        pairs: list[tuple[str | None, ast.expr]] = []
        if isinstance(node, ast.Call):
            pairs = [(keyword.arg, keyword.value) for keyword in node.keywords]
        elif isinstance(node, ast.Dict):
            pairs = [
                (key.value, value)
                for key, value in zip(node.keys, node.values, strict=True)
                if isinstance(key, ast.Constant) and isinstance(key.value, str)
            ]
        for name, expression in pairs:
            technique = None if name is None else technique_of(name, keyword=True)
            if name is None or technique is None:
                continue
            if isinstance(node, ast.Call) and technique is Technique.TILE_SIZE and not _takes_tiles(module, node, name):
                continue
            if module.is_kernel(place.scope) and not values.constants(expression, place):
                continue  # a kernel handing on its own parameter
            for value in values.of(expression, place):
                finding = _finding(technique, name, value)
                if finding is not None:
                    yield finding


def _takes_tiles(module: Module, node: ast.Call, name: str) -> bool:
    """Tile sizes are keywords of kernels and configurations. `block=` of a CUDA launch is its threads."""
    called = module.name_of(node.func)
    if isinstance(node.func, ast.Subscript) or called.endswith(("Config", "dict")):
        return True
    scope = module.functions.get(called)
    return scope is not None and module.is_kernel(scope) and name in scope.parameters


def _reaching_a_shape(module: Module, values: Values) -> Iterator[Finding]:
    """Parameters of kernels that are the extent of a range or of a tensor, whatever their name."""
    for scope in module.functions.values():
        if not module.is_kernel(scope):
            continue
        for name in _shape_parameters(module, scope):
            if technique_of(name, keyword=True) not in (None, Technique.TILE_SIZE):
                continue
            for expression, place in values.passed(scope, name):
                if module.is_kernel(place.scope):
                    continue
                for value in values.of(expression, place):
                    finding = _finding(Technique.TILE_SIZE, name, value)
                    if finding is not None:
                        yield finding


def _shape_parameters(module: Module, scope: Scope) -> list[str]:
    """Compile-time parameters that reach `arange`, `zeros`, `full` or a block's shape, in order."""
    reached: set[str] = set()
    for node, place in module.nodes:
        if place.scope is not scope or not isinstance(node, ast.Call):
            continue
        called = module.name_of(node.func).rpartition(".")[2]
        if called == "arange":
            shapes: list[ast.expr] = node.args[1:2]
        elif called in ("zeros", "full"):
            shapes = node.args[:1]
        else:
            shapes = [keyword.value for keyword in node.keywords if keyword.arg == "block_shape"]
        for shape in shapes:
            parts = shape.elts if isinstance(shape, ast.Tuple | ast.List) else [shape]
            reached |= {part.id for part in parts if isinstance(part, ast.Name)}
    return [name for name in scope.parameters if name in reached]


def _defaults(module: Module, values: Values) -> Iterator[Finding]:
    """Defaults of kernels' parameters that no call gives."""
    for scope in module.functions.values():
        if not module.is_kernel(scope):
            continue
        for name, default in scope.parameters.items():
            technique = technique_of(name, keyword=True)
            if default is None or technique is None or values.passed(scope, name) or scope.parent is None:
                continue
            for value in values.of(default, Place(scope.parent)):
                finding = _finding(technique, name, value)
                if finding is not None:
                    yield finding


def _constants(module: Module, values: Values) -> Iterator[Finding]:
    """Constants under such a name that were not met on the way to a parameter. One that nothing reads is declared."""
    compiled = any(module.is_kernel(scope) for scope in module.functions.values()) or any(
        isinstance(node, ast.Constant) and isinstance(node.value, str) and "__global__" in node.value
        for node, _ in module.nodes
    )
    owners = [module.root, *module.functions.values()]
    bindings = [(name, each) for owner in owners for name, found in owner.bindings.items() for each in found]
    bindings += [(name, each) for name, found in module.attributes.items() for each in found]
    for name, binding in bindings:
        technique = technique_of(name, keyword=False)
        if technique is None or binding.value is None or id(binding) in values.followed:
            continue
        if not compiled and not (technique is Technique.TILE_SIZE and _is_a_step(module, name)):
            continue
        if binding.element:
            expression: ast.expr = ast.Name(name, ast.Load(), lineno=binding.line)
        else:
            expression = binding.value
        for value in values.of(expression, binding.place):
            if value.is_constant and _is_size(value.constant):
                finding = _finding(technique, name, value, read=name in module.read)
                if finding is not None:
                    yield finding


def _is_a_step(module: Module, name: str) -> bool:
    """Whether some loop goes by it: then it is the size of a block of a plain torch program."""
    return any(
        isinstance(node, ast.Call)
        and module.name_of(node.func) == "range"
        and len(node.args) == 3
        and isinstance(node.args[2], ast.Name)
        and node.args[2].id == name
        for node, _ in module.nodes
    )


def _finding(technique: Technique, name: str, value: Value, *, read: bool = True) -> Finding | None:
    constant = value.constant
    if value.is_constant and not _is_size(constant):
        return None
    text = _size_text(constant) if value.is_constant else value.text
    enabled = read
    if technique in (Technique.SPLIT_K, Technique.CLUSTER):
        enabled = read and not (value.is_constant and math.prod(_numbers(constant)) <= 1)
        if technique is Technique.CLUSTER and not value.is_constant:
            return None
    if technique is Technique.TILE_SIZE:
        text = f"{name}={text}"
    state = State.ENABLED if enabled else State.DECLARED
    return Finding(technique, text, state, (value.line,), value.when)


def _is_size(constant: Any) -> bool:
    numbers = _numbers(constant)
    return bool(numbers) and all(isinstance(n, int) and not isinstance(n, bool) for n in numbers)


def _numbers(constant: Any) -> list[Any]:
    return list(constant) if isinstance(constant, tuple | list) else [constant]


def _size_text(constant: Any) -> str:
    return repr(constant)
