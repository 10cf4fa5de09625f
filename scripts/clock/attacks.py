"""What code inside the worker can do to the clock: the submission of `scripts/measure_attacks`.

Each attack does the honest operation of the clock board (a product of two matrices, or a sum) and lies about when. They
are written in Python against this harness's own worker, found through the garbage collector; native code could do the
same a little faster.
"""

import gc
import threading

import torch

from harness.wire import words

side = torch.cuda.Stream()


def device():
    """The worker's side of the clock."""
    return next(o for o in gc.get_objects() if type(o).__name__ == "CudaDevice")


def honest(x, y):
    return x @ y if x.dim() == 2 else x + y


def early(x, y):
    """Pre-work: on a stream that does not wait for the gate, joined afterwards."""
    with torch.cuda.stream(side):
        out = honest(x, y)
    torch.cuda.current_stream().wait_stream(side)
    return out


def patched(timed):
    """Replace the worker's timed call."""
    type(device()).timed = timed


def early_done(self, number, call, collect):
    """Honest in all but the done word, which a thread writes when the release word comes."""

    def lie():
        page = self._page.words
        while page[words.RELEASE] != number:
            pass
        page[words.DONE] = number

    threading.Thread(target=lie).start()
    return self.honest_timed(number, call, collect)


def early_words(self, number, call, collect):
    """Done, digest (of an earlier output) and copied are all told as soon as the call is released."""

    def lie():
        page = self._page.words
        while page[words.RELEASE] != number:
            pass
        page[words.DONE] = page[words.DIGESTED] = page[words.COPIED] = number

    threading.Thread(target=lie).start()
    return self.honest_timed(number, call, collect)


def no_gate(self, number, call, collect):
    """No gate at all: start as soon as the input is said to be there, and answer the gate's questions from the host;
    the output lies in its slot before the release."""
    page = self._page.words
    page[words.ACKNOWLEDGE] = number
    self._queued()
    while page[words.REVEALED] != number:
        pass
    stream = torch.cuda.current_stream().cuda_stream
    ways = collect(call())
    self._digest.launch([way.span for way in ways], stream)
    for way in ways:
        way.copy()
    digest = self._digest.value(stream)
    page[words.FLUSHED] = number
    while page[words.RELEASE] != number:
        page[words.PONG] = page[words.PING]
    page[words.DONE] = number
    for i, word in enumerate(digest):
        page[words.DIGEST + i] = word - (word >> 31 << 32)
    page[words.DIGESTED] = number
    page[words.COPIED] = number
    return 1000


def no_flush(self, number, call, collect):
    """The gate without the pass over the L2."""
    kept, self._flush_bytes = self._flush_bytes, 0
    try:
        return self.honest_timed(number, call, collect)
    finally:
        self._flush_bytes = kept


ATTACKS = {"earlydone": early_done, "earlyboth": early_words, "nogate": no_gate, "noflush": no_flush}


def custom_kernel(data):
    name, operands = data
    kind = name.partition("_")[0]
    if kind == "install":
        cls = type(device())
        if not hasattr(cls, "honest_timed"):
            cls.honest_timed = cls.timed
        patched(ATTACKS.get(name.split("_")[1], cls.honest_timed))
        return operands[0].clone()
    return (early if kind == "early" else honest)(*operands)
