"""Rules for what only the shape of the code shows: persistent loops, epilogues, online softmax, declared switches."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from harness.techniques.calls import condition_text
from harness.techniques.finding import Finding, State, Technique
from harness.techniques.module import Condition, Module, Place, Scope
from harness.techniques.values import Values

SWITCH = re.compile(r"(use_|enable_)?warp_?speciali[sz](e|ed|ation)", re.IGNORECASE)
PROGRAMS = re.compile(r"(NUM|N)_?(SMS?|PROGRAMS|CTAS?_TOTAL)", re.IGNORECASE)
PRODUCTS = re.compile(r"language\.dot(_scaled)?$|^torch\.(addmm|matmul|mm|bmm|baddbmm)$|warpgroup_mma$|\bmma_v2$")
ELEMENTWISE = re.compile(
    r"where|maximum|minimum|max|min|exp2?|log2?|sqrt|rsqrt|abs|erf|tanh|sigmoid|relu6?|leaky_relu|gelu|silu|swish|clamp|"
    r"fma|math_\w+|sin|cos|softplus|addcmul|mul|add|div|sub"
)
"""Functions that compute on the elements of an accumulator; casts, copies and changes of shape are none of them."""


def find_structure(module: Module, values: Values) -> Iterator[Finding]:
    yield from _persistent(module, values)
    yield from _online_softmax(module)
    for scope in module.functions.values():
        if module.is_kernel(scope):
            yield from _Epilogue(module, values, scope).find()
            for name, line in scope.parameter_lines.items():
                if SWITCH.fullmatch(name):
                    yield Finding(Technique.WARP_SPECIALIZATION, "", State.DECLARED, (line,))


# -- persistent loops -------------------------------------------------------------------------------------------------


def _persistent(module: Module, values: Values) -> Iterator[Finding]:
    """A loop over tiles that begins at the program's own number and goes on by the number of programs."""
    for node, place in module.nodes:
        if isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and len(node.iter.args) == 3:
            start, _, step = node.iter.args
            if _is_program_id(module, start, place) and _is_program_count(module, values, step, place):
                yield Finding(Technique.PERSISTENT, "", State.ENABLED, (node.lineno,), condition_text(place.conditions))
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and isinstance(node.target, ast.Name):
            inside = any(isinstance(loop, ast.While) for loop in place.loops)
            if (
                inside
                and _is_program_id(module, ast.Name(node.target.id, ast.Load(), lineno=node.lineno), place)
                and _is_program_count(module, values, node.value, place)
            ):
                yield Finding(Technique.PERSISTENT, "", State.ENABLED, (node.lineno,), condition_text(place.conditions))


def _is_program_id(module: Module, expression: ast.expr, place: Place) -> bool:
    if isinstance(expression, ast.Call):
        return module.name_of(expression.func).endswith((".program_id", ".block_idx"))
    if isinstance(expression, ast.Name):
        bound = place.scope.bindings.get(expression.id, [])
        return any(b.value is not None and _is_program_id(module, b.value, b.place) for b in bound)
    return False


def _is_program_count(module: Module, values: Values, expression: ast.expr, place: Place) -> bool:
    if isinstance(expression, ast.Call):
        return module.name_of(expression.func).endswith((".num_programs", ".grid_dim"))
    if not isinstance(expression, ast.Name):
        return False
    if PROGRAMS.fullmatch(expression.id):
        return True
    texts = [value.text for value in values.of(expression, place)]
    return any("num_programs" in text or "multi_processor_count" in text for text in texts)


# -- online softmax ---------------------------------------------------------------------------------------------------


def _online_softmax(module: Module) -> Iterator[Finding]:
    """In a loop: a new maximum from the old one, and the exponential of their difference."""
    maxima: dict[tuple[int, str], tuple[set[str], ast.stmt, Place]] = {}
    for node, place in module.nodes:
        if not place.loops or not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        call = node.value
        if isinstance(call, ast.Call) and module.name_of(call.func).endswith((".maximum", ".max", "fmax")):
            names = {argument.id for argument in call.args if isinstance(argument, ast.Name)}
            maxima[(id(place.loops[-1]), node.targets[0].id)] = (names, node, place)
    for node, name, place in module.named_calls():
        if not name.rpartition(".")[2].startswith("exp") or not place.loops or not node.args:
            continue
        difference = node.args[0]
        for part in ast.walk(difference):
            if not (isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub)):
                continue
            if not (isinstance(part.left, ast.Name) and isinstance(part.right, ast.Name)):
                continue
            old, statement, at = maxima.get((id(place.loops[-1]), part.right.id), (set(), node, place))
            if part.left.id in old:
                lines = tuple(sorted({statement.lineno, node.lineno}))
                yield Finding(Technique.ONLINE_SOFTMAX, "", State.ENABLED, lines, condition_text(at.conditions))


# -- epilogues --------------------------------------------------------------------------------------------------------


class _Epilogue:
    """Arithmetic on the accumulator after the loop that fills it, before it is stored."""

    def __init__(self, module: Module, values: Values, scope: Scope) -> None:
        self._module, self._values, self._scope = module, values, scope
        self._nodes = [(node, place) for node, place in module.nodes if place.scope is scope]

    def find(self) -> Iterator[Finding]:
        accumulators, filling = self._accumulators()
        if not accumulators or self._rescales():
            return
        carriers = set(accumulators)
        for node, place in self._nodes:
            if not isinstance(node, ast.Assign | ast.Return | ast.Expr | ast.AugAssign) or node.value is None:
                continue
            if any(id(loop) in filling for loop in place.loops) or self._is_product(node.value):
                continue
            used = {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)} & carriers
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id in carriers:
                used.add(node.target.id)
            if not used:
                continue
            if isinstance(node, ast.AugAssign) or self._computes(node.value, carriers):
                state = State.DECLARED if self._never(place.conditions) else State.ENABLED
                when = condition_text(place.conditions)
                yield Finding(Technique.FUSED_EPILOGUE, "", state, (node.lineno,), when)
            if isinstance(node, ast.Assign):
                carriers |= {target.id for target in node.targets if isinstance(target, ast.Name)}

    def _accumulators(self) -> tuple[set[str], set[int]]:
        """Names that hold a product, and the loops that fill them."""
        names: set[str] = set()
        filling: set[int] = set()
        for node, place in self._nodes:
            if isinstance(node, ast.Assign | ast.AugAssign) and self._is_product(node.value):
                targets: list[ast.expr] = node.targets if isinstance(node, ast.Assign) else [node.target]
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
                filling |= {id(loop) for loop in place.loops[-1:]}
            if isinstance(node, ast.Call) and self._module.name_of(node.func).endswith(("cute.gemm", "tcgen05_mma")):
                position = 1 if self._module.name_of(node.func).endswith("cute.gemm") else 2
                filled = node.args[position] if len(node.args) > position else None
                if isinstance(filled, ast.Name):
                    names.add(filled.id)
                    filling |= {id(loop) for loop in place.loops[-1:]}
        for name in self._scope.parameters:  # tensor memory that another partition fills
            if name.startswith("acc") and self._is_loaded(name):
                names.add(name)
        return names, filling

    def _is_loaded(self, name: str) -> bool:
        return any(
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "load"
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == name
            for node, _ in self._nodes
        )

    def _is_product(self, expression: ast.AST) -> bool:
        for node in ast.walk(expression):
            if isinstance(node, ast.Call) and PRODUCTS.search(self._module.name_of(node.func)):
                return True
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
                return True
        return False

    def _rescales(self) -> bool:
        return any(place.scope is self._scope for place in _softmax_places(self._module))

    def _computes(self, expression: ast.expr, carriers: set[str]) -> bool:
        """Whether the accumulator goes through an operation other than a cast or a change of shape."""
        for node in ast.walk(expression):
            if isinstance(node, ast.BinOp):
                operands: list[ast.expr] = [node.left, node.right]
            elif isinstance(node, ast.Call) and ELEMENTWISE.fullmatch(
                self._module.name_of(node.func).rpartition(".")[2]
            ):
                operands = list(node.args)
            else:
                continue
            if any(_carries(operand, carriers) for operand in operands):
                return True
        return False

    def _never(self, conditions: tuple[Condition, ...]) -> bool:
        """Whether a condition on a parameter fails for every value that reaches it."""
        for condition in conditions:
            place = Place(self._scope)
            test = condition.test
            if isinstance(test, ast.Call) and test.args:  # const_expr(…)
                test = test.args[0]
            if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
                left = self._values.of(test.left, place)
                right = self._values.constants(test.comparators[0], place)
                outcomes = [v.constant in right if v.is_constant else None for v in left]
            else:
                outcomes = [bool(v.constant) if v.is_constant else None for v in self._values.of(test, place)]
            if outcomes and None not in outcomes and condition.holds not in outcomes:
                return True
        return False


def _softmax_places(module: Module) -> list[Place]:
    lines = {line for finding in _online_softmax(module) for line in finding.lines}
    return [place for node, place in module.nodes if isinstance(node, ast.Assign) and node.lineno in lines]


def _carries(expression: ast.expr, carriers: set[str]) -> bool:
    """Whether the expression's value, not only an index in it, comes from a carrier."""
    if isinstance(expression, ast.Name):
        return expression.id in carriers
    if isinstance(expression, ast.Call) and isinstance(expression.func, ast.Attribute):
        return _carries(expression.func.value, carriers) or any(_carries(a, carriers) for a in expression.args)
    if isinstance(expression, ast.Attribute | ast.Subscript):
        return _carries(expression.value, carriers)
    if isinstance(expression, ast.UnaryOp):
        return _carries(expression.operand, carriers)
    return False
