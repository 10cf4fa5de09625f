"""The worker: holds the submission, does what the supervisor says, and is believed in nothing.

Messages, each answered by one frame (`timed` by two: `{"queued": true}` once everything is queued, then the result):

`{"op": "open", "device": "cpu"|"cuda"}`                      make the device ready (+ its page or clock as descriptor)
`{"op": "arena", "name", "device", "nbytes"}` + descriptor     map a shared arena under that name
`{"op": "import", "folder", "file", "support"}`                import the submission from that folder
`{"op": "call", "data", "placed"}`                             call it once, keep the output, describe it
`{"op": "collect", "placed"}`                                  copy the kept output into the arenas
`{"op": "timed", "number", "data", "placed", "collect"}`       one call behind the gate
`{"op": "noop", "number", "collect"?, "written"?}`             the same without a submission: the clock's own cost, with
                                                               `collect` also that of copying so much, which the call
                                                               writes if `written`

`data` is a manifest (`harness.wire.packing`), `placed` and `collect` are lists of `[arena, offset, nbytes]`, one for
each storage. A failure is answered by `{"error": {"kind", "message", "traceback"}}`.
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from harness.wire.channel import Channel, ChannelClosed, Message
from harness.wire.packing import board_class, tensor_leaves, unpack
from harness.worker import faults
from harness.worker.devices import CpuDevice, CudaDevice, WorkerDevice, open_cuda_arena, open_host_arena
from harness.worker.entry import load_entry
from harness.worker.output import Move, Output, Placement, describe_output, moves


class Worker:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._device: WorkerDevice | None = None
        self._arenas: dict[str, torch.Tensor] = {}
        self._entry: Callable[[Any], Any] | None = None
        self._kept: Output | None = None

    def serve(self) -> None:
        """Answer requests until the supervisor closes the channel."""
        while True:
            try:
                request, fds = self._channel.receive_with_fds()
            except ChannelClosed:
                return
            try:
                answer = getattr(self, "do_" + request["op"])(request, fds)
            except ChannelClosed:
                return
            except BaseException as error:  # SystemExit too: leaving is an error of the submission's
                answer = faults.describe(error)
            try:
                self._channel.send(answer)
            except ChannelClosed:
                return

    def do_open(self, request: Message, fds: list[int]) -> Message:
        if request["device"] == "cuda":
            self._device = CudaDevice(fds[0], self._queued)
        else:
            self._device = CpuDevice(socket.socket(fileno=fds[0]), self._queued)
        return {"ok": True}

    def do_arena(self, request: Message, fds: list[int]) -> Message:
        open_arena = open_host_arena if request["device"] == "cpu" else open_cuda_arena
        self._arenas[request["name"]] = open_arena(fds[0], request["nbytes"])
        return {"ok": True}

    def do_import(self, request: Message, fds: list[int]) -> Message:
        sys.path.insert(0, request["folder"])
        for support in request["support"]:  # the board's own modules, whose dataclasses `data` may hold
            importlib.import_module(support)
        self._entry = load_entry(request["file"])
        return {"ok": True}

    def do_call(self, request: Message, fds: list[int]) -> Message:
        device, entry = self._ready()
        self._kept = None
        data, inputs = self._inputs(request)
        output = entry(data)
        device.synchronize()
        self._kept = describe_output(output, inputs)
        return {
            "output": self._kept.manifest,
            "sizes": self._kept.sizes,
            "devices": self._kept.devices,
            "aliases": self._kept.aliases,
        }

    def do_collect(self, request: Message, fds: list[int]) -> Message:
        assert self._device is not None
        assert self._kept is not None
        for move in moves(self._kept, _placements(request["placed"]), self._arenas):
            move.copy()
        self._device.synchronize()
        self._kept = None
        return {"ok": True}

    def do_timed(self, request: Message, fds: list[int]) -> Message:
        device, entry = self._ready()
        described: dict[str, Any] = {}
        data, inputs = self._inputs(request)
        collect = self._collector(_placements(request["collect"]), inputs, described)
        events_ns = device.timed(request["number"], lambda: entry(data), collect)
        return {"finished": True, "events_ns": events_ns, **described}

    def do_noop(self, request: Message, fds: list[int]) -> Message:
        assert self._device is not None
        placed = _placements(request.get("collect", ()))
        blank = [torch.ones(size, dtype=torch.uint8, device=self._arenas[arena].device) for arena, _, size in placed]
        described: dict[str, Any] = {}
        collect = self._collector(placed, [], described) if placed else lambda output: []
        written = bool(request.get("written"))
        events_ns = self._device.timed(request["number"], lambda: fill(blank) if written else blank, collect)
        return {"finished": True, "events_ns": events_ns, **described}

    def _ready(self) -> tuple[WorkerDevice, Callable[[Any], Any]]:
        assert self._device is not None
        assert self._entry is not None
        return self._device, self._entry

    def _collector(
        self, placed: list[Placement], inputs: list[tuple[str, torch.Tensor]], described: dict[str, Any]
    ) -> Callable[[Any], list[Move]]:
        """What finds an output's way to its places and says in `described` what it was."""

        def collect(output: Any) -> list[Move]:
            told = describe_output(output, inputs)
            described.update(output=told.manifest, devices=told.devices, aliases=told.aliases)
            return moves(told, placed, self._arenas)

        return collect

    def _queued(self) -> None:
        self._channel.send({"queued": True})

    def _inputs(self, request: Message) -> tuple[Any, list[tuple[str, torch.Tensor]]]:
        flats = [self._arenas[arena][offset : offset + size] for arena, offset, size in request["placed"]]
        data = unpack(request["data"], flats, board_class)
        return data, list(tensor_leaves(data))


def fill(blank: list[torch.Tensor]) -> list[torch.Tensor]:
    """The work of a call that does nothing but write its output."""
    for tensor in blank:
        tensor.fill_(2)
    return blank


def _placements(placed: Iterable[Sequence[Any]]) -> list[Placement]:
    return [(arena, offset, size) for arena, offset, size in placed]


def run_worker(sock: socket.socket) -> None:
    """Serve on this socket until it closes, then leave without running the submission's exit handlers."""
    Worker(Channel(sock)).serve()
    os._exit(0)
