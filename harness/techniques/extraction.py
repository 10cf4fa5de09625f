"""The techniques of a source: parse it, apply every rule, put what is the same together."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator

from harness.techniques.calls import condition_text, find_calls
from harness.techniques.cuda_text import CudaText, find_cuda, looks_like_cuda
from harness.techniques.finding import ORDER, Finding, State, Technique
from harness.techniques.module import Module, Place
from harness.techniques.parameters import find_parameters
from harness.techniques.structure import find_structure
from harness.techniques.values import Values

CUDA_SUFFIXES = (".cu", ".cuh", ".cpp", ".h")


def extract(source: str, file_name: str) -> tuple[Finding, ...]:
    """What the source does, in the order of `Technique`, then of the text. Nothing of it is run.

    Empty for a text that can't be parsed: a file that Python can't read does nothing.
    """
    if file_name.endswith(CUDA_SUFFIXES):
        return _merged(find_cuda(CudaText(source, 1)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes in somebody else's strings
            tree = ast.parse(source)
        module = Module(tree)
        values = Values(module)
        return _merged([*find_parameters(module, values), *_rest(module, values)])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def _rest(module: Module, values: Values) -> Iterator[Finding]:
    yield from find_calls(module, values)
    yield from find_structure(module, values)
    for text in cuda_texts(module):
        yield from find_cuda(text)


def cuda_texts(module: Module) -> Iterator[CudaText]:
    """CUDA source in strings: literals and f-strings that hold device code, and PTX handed to an inline assembly."""
    inside: set[int] = set()
    for node, place in module.nodes:
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in ast.walk(node) if part is not node}
            text = "".join(
                part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "0"
                for part in node.values
            )
            if looks_like_cuda(text):
                yield _cuda_text(node, text, place)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            if looks_like_cuda(node.value):
                yield _cuda_text(node, node.value, place)
        elif isinstance(node, ast.Call) and module.name_of(node.func).endswith(
            ("inline_asm_elementwise", "inline_asm")
        ):
            for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield _cuda_text(argument, argument.value, place)


def _cuda_text(node: ast.Constant | ast.JoinedStr, text: str, place: Place) -> CudaText:
    """A string runs along with the file's lines unless it is glued together or holds escaped line breaks."""
    flat = (node.end_lineno or node.lineno) - node.lineno != text.count("\n")
    return CudaText(text, node.lineno, flat, condition_text(place.conditions))


def _merged(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """One finding for each technique, value, state and condition, with all its lines.

    A condition says less than none: what is found without one drops its conditional repetitions of no value of their
    own. What is enabled anywhere is not merely declared by a parameter's name.
    """
    lines: dict[tuple[Technique, str, State, str], set[int]] = {}
    for finding in findings:
        key = (finding.technique, finding.value, finding.state, finding.when)
        lines.setdefault(key, set()).update(finding.lines)
    specialised = any(
        technique is Technique.WARP_SPECIALIZATION and state is State.ENABLED for technique, _, state, _ in lines
    )
    merged = []
    for (technique, value, state, when), found in lines.items():
        if technique is Technique.WARP_SPECIALIZATION and state is State.DECLARED and specialised:
            continue
        if when and (technique, value, state, "") in lines:
            lines[(technique, value, state, "")].update(found)
            continue
        merged.append((technique, value, state, when))
    return tuple(
        Finding(technique, value, state, tuple(sorted(lines[(technique, value, state, when)])), when)
        for technique, value, state, when in sorted(
            merged, key=lambda key: (ORDER[key[0]], min(lines[key]), key[1], key[3])
        )
    )
