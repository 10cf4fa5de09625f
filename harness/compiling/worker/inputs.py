"""A board's inputs without their device: made by its own `generate_input` on the make-believe one.

Large tensors are shapes alone, small ones have the values of the case's own seed (on CPU: a device's generator would
draw others). What is written for each case: `input.json`, a manifest (`harness.wire.packing`) with the storages' sizes
and devices, and `input.bin`, the bytes of those that have values.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from harness.compiling.architectures import ARCHITECTURES
from harness.compiling.worker.collect import Collector, NotFollowedError
from harness.compiling.worker.make_believe import MOST_REAL_ELEMENTS, MakeBelieve
from harness.compiling.worker.tensors import inner_of
from harness.wire.channel import Message
from harness.wire.packing import board_class, dtype_name, dtype_of, to_manifest, unpack

MANIFEST, DATA = "input.json", "input.bin"
_LIMITS = (MOST_REAL_ELEMENTS, 16 * MOST_REAL_ELEMENTS)
"""Sizes up to which values are computed, tried in turn: a board may look at values of its own input."""


def make_inputs(request: Message) -> list[Message]:
    """Write the inputs of every case below `out`; per case `{"index", "folder"}` or `{"index", "error"}`."""
    from harness.boards.loader import load_board
    from harness.boards.reference import Reference
    from harness.compiling.worker import cuda_answers
    from harness.errors import HarnessError

    collector = Collector(ARCHITECTURES[request["architecture"]], Path(request["out"]), {})
    cuda_answers.install(collector)
    told: list[Message] = []
    with MakeBelieve(collector):
        reference = Reference.load(load_board(Path(request["board"])))
    for case in request["cases"]:
        folder = Path(request["out"]) / str(case["index"])
        folder.mkdir()
        error = ""
        for limit in _LIMITS:
            collector.problems.clear()
            try:
                with MakeBelieve(collector, limit):
                    write_input(folder, reference.generate(tupled(case["spec"])))
            except (HarnessError, NotFollowedError) as failure:
                error = str(failure)
                continue
            error = ""
            if not collector.problems:
                break
        told.append({"index": case["index"], **({"error": error} if error else {"folder": str(folder)})})
    return told


def tupled(spec: dict[str, Any]) -> dict[str, Any]:
    def value_of(value: Any) -> Any:
        return tuple(value_of(each) for each in value) if isinstance(value, list) else value

    return {key: value_of(value) for key, value in spec.items()}


def write_input(folder: Path, data: Any) -> None:
    """Take a tree apart into `input.json` and `input.bin`."""
    storages: dict[int, int] = {}
    described: list[Message] = []
    with open(folder / DATA, "wb") as file:

        def leaf(tensor: torch.Tensor, path: str) -> Any:
            inner = inner_of(tensor).detach()
            key = inner.untyped_storage()._cdata
            if key not in storages:
                storages[key] = len(described)
                described.append(_store(inner, tensor.device.type, file))
            place = {"storage": storages[key], "dtype": dtype_name(inner.dtype), "shape": list(inner.shape)}
            return {"tensor": {**place, "strides": list(inner.stride()), "offset": inner.storage_offset()}}

        manifest = to_manifest(data, "", leaf)
    (folder / MANIFEST).write_text(json.dumps({"manifest": manifest, "storages": described}))


def _store(inner: torch.Tensor, device: str, file: Any) -> Message:
    storage = inner.untyped_storage()
    described: Message = {"nbytes": storage.nbytes(), "device": device, "offset": None}
    if inner.device.type != "meta":
        described["offset"] = file.tell()
        flat = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),), (1,))
        file.write(flat.numpy().tobytes())
    return described


def read_input(folder: Path, device: MakeBelieve) -> Any:
    """The tree again, its tensors on the devices that the board put them on."""
    told = json.loads((folder / MANIFEST).read_text())
    data = (folder / DATA).read_bytes()
    flats, devices = [], []
    for storage in told["storages"]:
        if storage["offset"] is None or not storage["nbytes"]:
            flats.append(
                torch.empty(storage["nbytes"], dtype=torch.uint8, device="cpu" if not storage["nbytes"] else "meta")
            )
        else:
            part = bytearray(data[storage["offset"] : storage["offset"] + storage["nbytes"]])
            flats.append(torch.frombuffer(part, dtype=torch.uint8).clone())
        devices.append(torch.device(storage["device"]))

    def placed(node: Any) -> Any:
        """The manifest with every tensor in place of its description."""
        if isinstance(node, dict) and isinstance(node.get("tensor"), dict) and "storage" in node["tensor"]:
            leaf = node["tensor"]
            tensor = torch.empty(0, dtype=dtype_of(leaf["dtype"]), device=flats[leaf["storage"]].device)
            storage = flats[leaf["storage"]].untyped_storage()
            tensor.set_(storage, leaf["offset"], tuple(leaf["shape"]), tuple(leaf["strides"]))
            return {"value": device.place(tensor, devices[leaf["storage"]])}
        if isinstance(node, dict):
            return {key: placed(value) for key, value in node.items()}
        return [placed(each) for each in node] if isinstance(node, list) else node

    return unpack(placed(told["manifest"]), [], board_class)
