"""Single rules, each on the least source that shows it."""

from __future__ import annotations

import textwrap
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.techniques import Finding, State, Technique, extract, technique_changes
from harness.techniques.codec import from_json, to_json

HEAD = """
import torch
import triton
import triton.language as tl
"""
KERNEL = """
@triton.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr, WARP_SPECIALIZE: tl.constexpr = False):
    for i in tl.range(0, n, BLOCK, warp_specialize=WARP_SPECIALIZE):
        tl.store(x_ptr + i + tl.arange(0, BLOCK), 0.0)
"""


def found(source: str, technique: Technique, file_name: str = "kernel.py") -> list[tuple[str, str, str]]:
    text = HEAD + KERNEL + textwrap.dedent(source) if file_name.endswith(".py") else source
    return [(f.value, f.state.value, f.when) for f in extract(text, file_name) if f.technique is technique]


def test_a_constant_is_followed_through_names_parameters_and_arithmetic() -> None:
    source = """
        WIDTH = 2**5
        SHAPE = (4 * WIDTH, 8)

        def pick(warps=SHAPE[1]):
            return SHAPE[0], warps

        def launch(x):
            block, warps = pick()
            options = {"num_warps": warps}
            kernel[(1,)](x, x.numel(), BLOCK=block, **options)
    """
    assert found(source, Technique.TILE_SIZE) == [("BLOCK=128", "enabled", "")]
    assert found(source, Technique.NUM_WARPS) == [("8", "enabled", "")]


def test_every_branch_counts() -> None:
    source = """
        def launch(x):
            if x.numel() > 4096:
                warps = 8
            elif x.is_cuda:
                warps = 4
            else:
                warps = 1
            kernel[(1,)](x, x.numel(), BLOCK=64 if x.is_cuda else 32, num_warps=warps)
    """
    assert found(source, Technique.NUM_WARPS) == [
        ("8", "enabled", "x.numel() > 4096"),
        ("4", "enabled", "not (x.numel() > 4096) and x.is_cuda"),
        ("1", "enabled", "not (x.numel() > 4096) and not (x.is_cuda)"),
    ]
    assert found(source, Technique.TILE_SIZE) == [
        ("BLOCK=32", "enabled", "not (x.is_cuda)"),
        ("BLOCK=64", "enabled", "x.is_cuda"),
    ]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("kernel[(1,)](x, 1, BLOCK=64)", [("", "declared", "")]),
        ("kernel[(1,)](x, 1, BLOCK=64, WARP_SPECIALIZE=False)", [("", "declared", "")]),
        ("kernel[(1,)](x, 1, BLOCK=64, WARP_SPECIALIZE=True)", [("", "enabled", "")]),
        ("kernel[(1,)](x, 1, 64, True)", [("", "enabled", "")]),
        ("kernel[(1,)](x, 1, 64, hopper())", [("", "enabled", "hopper()")]),
    ],
)
def test_declared_is_told_from_enabled(call: str, expected: list[tuple[str, str, str]]) -> None:
    assert found(f"\ndef launch(x):\n    {call}\n", Technique.WARP_SPECIALIZATION) == expected


def test_comments_strings_and_comparisons_do_nothing() -> None:
    source = '''
        # TMA, wgmma, tcgen05, cp.async, torch.bfloat16, num_warps=8
        def launch(x):
            """Later: TensorDescriptor, split-K, persistent. tl.dot in torch.float8_e4m3fn."""
            if x.dtype == torch.bfloat16:
                raise TypeError("no bfloat16, please; use mbarrier or setmaxnreg")
    '''
    findings = extract(HEAD + textwrap.dedent(source), "kernel.py")
    assert findings == ()


def test_an_import_alone_is_no_use() -> None:
    source = "from triton.tools.tensor_descriptor import TensorDescriptor\nfrom torch import bfloat16\n"
    assert extract(source, "a.py") == ()


def test_one_configuration_is_no_search() -> None:
    one = "@triton.autotune(configs=[triton.Config({'BLOCK': 64})], key=[])" + KERNEL
    assert found(one, Technique.AUTOTUNE)[0][:2] == ("1 config", "declared")


def test_an_epilogue_that_no_value_reaches_is_declared() -> None:
    source = """
        @triton.jit
        def product(a, b, c, ACT: tl.constexpr):
            acc = tl.zeros((16, 16), tl.float32)
            for k in range(4):
                acc = tl.dot(a, b, acc)
            if ACT == "relu":
                acc = tl.maximum(acc, 0.0)
            tl.store(c, acc)

        def launch(x):
            product[(1,)](x, x, x, ACT="NAME")
    """
    assert found(source.replace("NAME", "none"), Technique.FUSED_EPILOGUE)[0][1] == "declared"
    assert found(source.replace("NAME", "relu"), Technique.FUSED_EPILOGUE)[0][1] == "enabled"


CUDA = """
// cp.async.bulk would be TMA; wgmma.
#if 0
asm volatile("tcgen05.mma;");
#endif
#ifdef USE_CLUSTER
__global__ void __cluster_dims__(2) k(float* x) {}
#else
__global__ void k(const float4* x) { __shared__ float tile[32]; printf("// no comment: wgmma."); }
#endif
constexpr int STAGES = 4, UNUSED_STAGES = 5; /* setmaxnreg. */
static_assert(STAGES > 1);
"""


def test_cuda_files() -> None:
    kinds = {finding.technique for finding in extract(CUDA, "kernel.cu")}
    assert Technique.TMA not in kinds
    assert Technique.TCGEN05 not in kinds
    assert Technique.WARP_SPECIALIZATION not in kinds
    assert found(CUDA, Technique.CLUSTER, "kernel.cu") == [("(2, 1, 1)", "enabled", "defined(USE_CLUSTER)")]
    assert found(CUDA, Technique.VECTOR_WIDTH, "k.cu") == [("16 B", "enabled", "not (defined(USE_CLUSTER))")]
    assert found(CUDA, Technique.NUM_STAGES, "kernel.cu") == [("4", "enabled", "")]
    (shared,) = [f for f in extract(CUDA, "kernel.cu") if f.technique is Technique.SHARED_MEMORY]
    assert shared.lines == (9,)


def test_lines_inside_strings() -> None:
    source = 'A = 1\nCUDA = r"""\n__global__ void k() {}\n\n  asm volatile("wgmma.fence;");\n"""\n'
    assert {f.lines for f in extract(source, "a.py") if f.technique is Technique.WGMMA} == {(5,)}
    escaped = 'A = 1\nCUDA = "__global__ void k() {}\\n\\n asm volatile(\\"wgmma.fence;\\");"\n'
    assert {f.lines for f in extract(escaped, "a.py") if f.technique is Technique.WGMMA} == {(2,)}


FINDINGS = st.builds(
    Finding,
    st.sampled_from(Technique),
    st.text(max_size=20),
    st.sampled_from(State),
    st.lists(st.integers(1, 10_000), min_size=1, max_size=5).map(tuple),
    st.text(max_size=20),
)


@given(st.lists(FINDINGS, max_size=10))
def test_findings_survive_the_store(findings: list[Finding]) -> None:
    text = to_json(findings)
    assert from_json(text) == tuple(findings)
    assert text.isascii()


@given(st.text(max_size=300))
@settings(max_examples=200)
def test_no_text_breaks_it(text: str) -> None:
    extract(text, "a.py")
    extract(text, "a.cu")
    extract(f'X = """__global__ {text.replace(chr(34), "").replace(chr(92), "")}"""', "a.py")


@pytest.mark.parametrize(
    "text",
    [
        "BLOCK = BLOCK",
        "def f(x=1):\n    return f(x)\nnum_warps = f(f(1))\ng(num_warps=num_warps)",
        "x = " + "(" * 150 + "1" + ")" * 150,
        "x = " + "-" * 5000 + "1",
        "a = 9 ** 9 ** 9\ng(num_warps=a)",
        "a = 1 << 10**9\ng(num_warps=a)",
        "a = [0] * 10**12\ng(num_warps=a)",
        "\n".join(f"a{i} = a{i + 1} if c else a{i + 1}" for i in range(60)) + "\na60 = 1\ng(num_warps=a0)",
    ],
)
def test_what_is_made_to_take_long(text: str) -> None:
    began = time.process_time()
    extract(text, "a.py")
    assert time.process_time() - began < 2


def test_changes() -> None:
    old = (
        Finding(Technique.NUM_WARPS, "4", State.ENABLED, (3,)),
        Finding(Technique.TMA, "", State.ENABLED, (9,)),
    )
    new = (
        Finding(Technique.NUM_WARPS, "8", State.ENABLED, (3,)),
        Finding(Technique.TMA, "", State.ENABLED, (20, 30)),  # moved, not changed
    )
    (change,) = technique_changes(old, new)
    assert (change.technique, change.lost, change.gained) == (Technique.NUM_WARPS, old[:1], new[:1])
    assert technique_changes(old, old) == []
