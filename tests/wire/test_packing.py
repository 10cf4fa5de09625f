from __future__ import annotations

import json
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.wire.packing import (
    ALIGNMENT,
    PackingError,
    board_class,
    dense_sizes,
    dense_strides,
    layout,
    pack,
    tensor_leaves,
    unpack,
)


@dataclass
class Pair:
    left: Any
    right: Any


Point = namedtuple("Point", "x y")

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


def travel(tree: Any) -> Any:
    """As a tree travels: its manifest as JSON text, its storages as copies of their bytes."""
    packed = pack(tree)
    storages = [storage.clone() for storage in packed.storages]
    return unpack(json.loads(json.dumps(packed.manifest)), storages, board_class)


def same(a: Any, b: Any) -> bool:
    return repr(a) == repr(b) and type(a) is type(b)


@given(PLAIN)
def test_plain_values_come_back_equal_and_of_the_same_type(tree: Any) -> None:
    assert same(travel(tree), tree)


def test_numbers_that_json_cannot_hold_come_back() -> None:
    for value in (float("inf"), float("-inf"), float("nan"), -0.0, 5e-324, 0.1):
        assert same(travel(value), value)


def test_a_tensor_keeps_dtype_shape_strides_and_values() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.int64, torch.bool, torch.complex64):
        tensor = torch.randn(3, 4, 5).to(dtype).permute(2, 0, 1)[1:, ::2]
        back = travel(tensor)
        assert (back.dtype, back.shape, back.stride()) == (tensor.dtype, tensor.shape, tensor.stride())
        assert torch.equal(back.to(torch.complex128), tensor.to(torch.complex128))


def test_views_of_one_storage_still_share_it() -> None:
    whole = torch.arange(10.0)
    packed = pack((whole[:5], [whole[5:]]))
    assert len(packed.specs) == 1
    assert packed.specs[0].paths == ("0", "1.0")
    left, (right,) = travel((whole[:5], [whole[5:]]))
    left.untyped_storage()[5 * 4] = 1  # a byte of what `right` sees
    assert right[0] != 5.0


def test_a_view_into_a_slot_starts_where_the_slot_starts() -> None:
    tensor = torch.arange(6.0).view(2, 3)
    packed = pack(tensor)
    slot = torch.zeros(1024, dtype=torch.uint8)
    slot[512 : 512 + 24] = packed.storages[0]
    assert torch.equal(unpack(packed.manifest, [slot[512 : 512 + 24]]), tensor)


def test_classes_of_an_imported_module_come_back_and_no_others() -> None:
    pair = travel(Pair(torch.ones(2), Point(1, "a")))
    assert isinstance(pair, Pair)
    assert pair.right == Point(1, "a")
    manifest = {"dataclass": "subprocess:Popen", "items": {"args": {"value": "true"}}}
    with pytest.raises(PackingError, match="Popen"):
        unpack(manifest, [], board_class)
    with pytest.raises(PackingError, match="not known"):
        unpack(pack(Pair(1, 2)).manifest, [])


def test_what_is_not_plain_data_is_refused_with_its_path() -> None:
    class Subclass(torch.Tensor):
        pass

    for tree, words in [
        ((1, {"a": object()}), "item 1.a is a object"),
        ([torch.ones(2).as_subclass(Subclass)], "item 0 is a Subclass"),
        ({(1, 2): 3}, "keys"),
        (torch.ones(2).to_sparse(), "not a plain strided tensor"),
        (print, "builtin_function_or_method"),
    ]:
        with pytest.raises(PackingError, match=words):
            pack(tree)


MANIFESTS = st.recursive(
    st.none() | st.integers() | st.text() | st.sampled_from([{"tensor": {}}, {"tensor": {"storage": 0}}]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["tensor", "tuple", "list", "dict", "value", "float", "dtype", "device", "items", "storage"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)


@given(MANIFESTS)
def test_any_manifest_is_read_or_refused(manifest: Any) -> None:
    for read in (lambda: unpack(manifest, [torch.zeros(8, dtype=torch.uint8)]), lambda: dense_sizes(manifest)):
        try:
            read()
        except PackingError:
            continue


@pytest.mark.parametrize("device", [0, -1, "", "gpu", "cuda:x", ["cpu"], None])
def test_what_is_no_device_is_refused(device: object) -> None:
    with pytest.raises(PackingError):
        unpack({"device": device}, [])


def test_a_tensor_cannot_reach_beyond_its_storage() -> None:
    leaf = {"storage": 0, "dtype": "float32", "shape": [4], "strides": [1], "offset": 0}
    storage = [torch.zeros(16, dtype=torch.uint8)]
    assert unpack({"tensor": leaf}, storage).shape == (4,)
    for change in ({"shape": [5]}, {"offset": 1}, {"strides": [2]}, {"strides": [-1]}, {"offset": -1}, {"storage": 1}):
        with pytest.raises(PackingError):
            unpack({"tensor": {**leaf, **change}}, storage)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.randoms())
def test_dense_strides_are_those_of_a_permuted_contiguous_tensor(shape: list[int], choice: Any) -> None:
    order = list(range(len(shape)))
    choice.shuffle(order)
    tensor = torch.arange(torch.Size(shape).numel()).view(shape).permute(order)
    strides = dense_strides(tensor.shape, tensor.stride())
    copy = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype)
    assert copy.untyped_storage().nbytes() == tensor.numel() * 8
    assert [s for s, n in zip(strides, tensor.shape, strict=True) if n > 1] == [
        s for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1
    ]
    every_other = torch.zeros(8)[::2]
    assert dense_strides(every_other.shape, every_other.stride()) == [1]


def test_sizes_of_an_output() -> None:
    output = [torch.zeros(3, 2), (torch.zeros(5, dtype=torch.float16),)]
    assert dense_sizes(pack(output).manifest) == [24, 10]
    shared = torch.zeros(4)
    with pytest.raises(PackingError):
        dense_sizes(pack([shared[:2], shared[2:]]).manifest)


def test_layout_is_aligned_and_disjoint() -> None:
    offsets, end = layout([1, 256, 257, 0])
    assert offsets == [0, 256, 512, 1024]
    assert end == 1024
    assert all(offset % ALIGNMENT == 0 for offset in offsets)


def test_leaves_have_their_paths() -> None:
    assert [path for path, _ in tensor_leaves((torch.ones(1), [2, {"k": torch.ones(1)}]))] == ["0", "1.1.k"]
