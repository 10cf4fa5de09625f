"""Rules for what a kernel calls: copy engines, tensor cores, barriers, hints, graphs, autotuning, and the dtypes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from harness.techniques.finding import Finding, State, Technique
from harness.techniques.module import Condition, Module, Place
from harness.techniques.values import Values

# A call's dotted name, imports written out, tells the technique. Each pattern is searched for, not matched whole.
CALLED: tuple[tuple[Technique, re.Pattern[str]], ...] = (
    (
        Technique.TMA,
        re.compile(
            r"TensorDescriptor(\.from_tensor)?$|make_tensor_descriptor$|\.tma\.|PipelineTma|CopyBulk|tma_atom|"
            r"experimental_descriptor_(load|store)$"
        ),
    ),
    (
        Technique.WGMMA,
        re.compile(r"warpgroup_mma(_init|_wait)?$|nvgpu\.warpgroup\.|hopper_helpers\.make_trivial_tiled_mma$"),
    ),
    (
        Technique.TCGEN05,
        re.compile(r"tcgen05_(mma|commit|copy)\w*$|\.tcgen05\.\w|blackwell_helpers\.make_\w*tiled_mma$"),
    ),
    (
        Technique.MMA,
        re.compile(r"(triton|helion)\.language\.dot(_scaled)?$|\bmma_v2$|nvgpu\.warp\.Mma\w+Op$"),
    ),
    (Technique.ASYNC_COPY, re.compile(r"\.async_copy\.async_copy_\w+$|cpasync\.CopyG2SOp$")),
    (Technique.MBARRIER, re.compile(r"\.mbarrier\.|arch\.mbarrier_\w+$|pipeline\.Pipeline\w+\.create$")),
    (
        Technique.SHARED_MEMORY,
        re.compile(r"\.allocate_shared_memory$|SmemAllocator$|arch\.alloc_smem$"),
    ),
    (
        Technique.WARP_SPECIALIZATION,
        re.compile(r"gluon\.language\.warp_specialize$|arch\.(warpgroup_reg_(de)?alloc|setmaxregister_\w+)$"),
    ),
    (Technique.PERSISTENT, re.compile(r"PersistentTileScheduler\.\w+$|PersistentTileSchedulerParams$")),
    (Technique.INLINE_PTX, re.compile(r"inline_asm(_elementwise)?$")),
    (Technique.CUDA_GRAPH, re.compile(r"torch\.cuda\.(CUDAGraph|graph|make_graphed_callables)$")),
)
LIBRARY_PRODUCTS = re.compile(r"^torch\.(addmm|matmul|mm|bmm|baddbmm)$")
DTYPES: tuple[tuple[Technique, re.Pattern[str]], ...] = (
    (Technique.FP4, re.compile(r"float4_?e2m1\w*$", re.IGNORECASE)),
    (Technique.FP8, re.compile(r"float8_?e\dm\d\w*$|float8e\w+$", re.IGNORECASE)),
    (Technique.BF16, re.compile(r"bfloat16$", re.IGNORECASE)),
    (Technique.FP16, re.compile(r"\.(float16|half)$", re.IGNORECASE)),
    (Technique.TF32, re.compile(r"\.TFloat32$")),
)
DTYPE_OWNERS = re.compile(r"^(torch|triton\.language|triton\.experimental\.gluon\.language|cutlass|helion\.language)\.")
PRECISIONS = {"tf32": Technique.TF32, "tf32x3": Technique.TF32X3}
HINT_KEYWORDS = ("eviction_policy", "cache_modifier")
HINT_LISTS = ("eviction_policies", "load_eviction_policies")
COMPILE_MODES = {
    "max-autotune": (Technique.AUTOTUNE, Technique.CUDA_GRAPH),
    "max-autotune-no-cudagraphs": (Technique.AUTOTUNE,),
    "reduce-overhead": (Technique.CUDA_GRAPH,),
}


def find_calls(module: Module, values: Values) -> Iterator[Finding]:
    for call, name, place in module.named_calls():
        for technique, pattern in CALLED:
            if pattern.search(name):
                yield found(technique, call, place)
        if LIBRARY_PRODUCTS.search(name) and module.is_kernel(place.scope):
            yield found(Technique.MMA, call, place)
        yield from _keywords(module, values, call, name, place)
    for node, place in module.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult) and module.is_kernel(place.scope):
            yield found(Technique.MMA, node, place)
        if isinstance(node, ast.Assign):
            yield from _settings(module, values, node, place)
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if module.name_of(decorator).endswith("helion.kernel"):
                    yield from _helion_search(decorator, place)
    yield from _dtypes(module)


def found(
    technique: Technique, node: ast.AST, place: Place, value: str = "", state: State = State.ENABLED, when: str = ""
) -> Finding:
    conditions = when or condition_text(place.conditions)
    return Finding(technique, value, state, (getattr(node, "lineno", 0),), conditions)


def condition_text(conditions: tuple[Condition, ...]) -> str:
    return " and ".join(dict.fromkeys(map(str, conditions)))


def _keywords(module: Module, values: Values, node: ast.Call, name: str, place: Place) -> Iterator[Finding]:
    for keyword in node.keywords:
        if keyword.arg in HINT_KEYWORDS:
            for value in values.of(keyword.value, place):
                if value.is_constant and isinstance(value.constant, str) and value.constant:
                    yield Finding(Technique.L2_HINT, value.constant, State.ENABLED, (value.line,), value.when)
        elif keyword.arg in HINT_LISTS:
            for constant in values.constants(keyword.value, place):
                for hint in constant if isinstance(constant, list | tuple) else [constant]:
                    if isinstance(hint, str) and hint:
                        yield found(Technique.L2_HINT, keyword.value, place, hint)
        elif keyword.arg == "input_precision":
            for value in values.of(keyword.value, place):
                if value.is_constant and value.constant in PRECISIONS:
                    yield Finding(PRECISIONS[value.constant], "", State.ENABLED, (value.line,), value.when)
        elif keyword.arg == "indexing" and "tensor_descriptor" in _flat(values.constants(keyword.value, place)):
            yield found(Technique.TMA, keyword.value, place)
        elif keyword.arg == "pid_type":
            for constant in values.constants(keyword.value, place):
                if isinstance(constant, str) and constant.startswith("persistent"):
                    yield found(Technique.PERSISTENT, keyword.value, place)
        elif keyword.arg == "range_warp_specializes":
            state = State.ENABLED if True in _flat(values.constants(keyword.value, place)) else State.DECLARED
            yield found(Technique.WARP_SPECIALIZATION, keyword.value, place, state=state)
        elif keyword.arg == "warp_specialize":
            yield from _warp_specialize(values, keyword.value, place)
        elif keyword.arg == "num_bits_per_copy":
            for constant in values.constants(keyword.value, place):
                if isinstance(constant, int):
                    yield found(Technique.VECTOR_WIDTH, keyword.value, place, f"{constant // 8} B")
        elif keyword.arg == "mode" and name.endswith("torch.compile"):
            for constant in values.constants(keyword.value, place):
                for technique in COMPILE_MODES.get(constant, ()):
                    text = constant if technique is Technique.AUTOTUNE else ""
                    yield found(technique, keyword.value, place, text)
        elif keyword.arg == "configs" and name.endswith(("triton.autotune", "helion.kernel")):
            yield _search(values, keyword.value, place)
    if name.endswith("gluon.language.BlockedLayout") and node.args:
        for value in values.of(node.args[0], place):
            if value.is_constant:
                yield Finding(Technique.VECTOR_WIDTH, value.text, State.ENABLED, (value.line,), value.when)
    if name.endswith("torch.set_float32_matmul_precision") and node.args:
        for constant in values.constants(node.args[0], place):
            state = State.DECLARED if constant == "highest" else State.ENABLED
            yield found(Technique.TF32, node, place, state=state)
    if name.endswith("triton.autotune") and node.args:
        yield _search(values, node.args[0], place)
    if name.endswith((".bfloat16", ".half")) and not node.args and isinstance(node.func, ast.Attribute):
        yield found(Technique.BF16 if name.endswith("bfloat16") else Technique.FP16, node, place)


def _warp_specialize(values: Values, expression: ast.expr, place: Place) -> Iterator[Finding]:
    """`True` must reach the loop; what is no constant may be true, and then says itself when."""
    for value in values.of(expression, place):
        if value.is_constant:
            state = State.ENABLED if value.constant else State.DECLARED
            yield Finding(Technique.WARP_SPECIALIZATION, "", state, (value.line,), value.when)
        else:
            when = " and ".join(filter(None, [value.when, value.text]))
            yield Finding(Technique.WARP_SPECIALIZATION, "", State.ENABLED, (value.line,), when)


def _search(values: Values, expression: ast.expr, place: Place) -> Finding:
    """Autotuning over a list of configurations; a list of one chooses nothing."""
    count = _count(values, expression, place)
    state = State.DECLARED if count == 1 else State.ENABLED
    text = "" if count is None else f"{count} config{'s' if count != 1 else ''}"
    return found(Technique.AUTOTUNE, expression, place, text, state)


def _count(values: Values, expression: ast.expr, place: Place) -> int | None:
    """How many items a list has that is written out, here or as the only result of a function of the module."""
    if isinstance(expression, ast.List | ast.Tuple):
        return None if any(isinstance(item, ast.Starred) for item in expression.elts) else len(expression.elts)
    lists = values.written_out(expression, place)
    return len(lists[0].elts) if len(lists) == 1 else None


def _helion_search(decorator: ast.expr, place: Place) -> Iterator[Finding]:
    """Helion searches when it is given no configuration."""
    keywords = {keyword.arg for keyword in decorator.keywords} if isinstance(decorator, ast.Call) else set()
    if not keywords & {"config", "configs", "use_default_config"}:
        yield found(Technique.AUTOTUNE, decorator, place)


def _settings(module: Module, values: Values, node: ast.Assign, place: Place) -> Iterator[Finding]:
    """`torch.backends.….allow_tf32 = True` and its newer form."""
    for target in node.targets:
        name = module.name_of(target)
        if not name.startswith("torch.backends."):
            continue
        for constant in values.constants(node.value, place):
            if name.endswith(".allow_tf32"):
                yield found(Technique.TF32, node, place, state=State.ENABLED if constant else State.DECLARED)
            elif name.endswith(".fp32_precision"):
                yield found(Technique.TF32, node, place, state=State.ENABLED if constant == "tf32" else State.DECLARED)


def _dtypes(module: Module) -> Iterator[Finding]:
    """Element types by name. One that is only compared with or annotated is not used."""
    passive: set[int] = set()
    for node, _ in module.nodes:
        if isinstance(node, ast.Compare):
            passive |= {id(part) for part in ast.walk(node)}
    for node, place in module.nodes:
        if not isinstance(node, ast.Attribute | ast.Name) or id(node) in passive:
            continue
        if isinstance(node.ctx, ast.Store):
            continue
        name = module.name_of(node)
        if not DTYPE_OWNERS.match(name):
            continue
        for technique, pattern in DTYPES:
            if pattern.search(name):
                yield found(technique, node, place)


def _flat(constants: list[Any]) -> list[Any]:
    return [item for each in constants for item in (each if isinstance(each, list | tuple) else [each])]
