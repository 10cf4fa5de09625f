#!POPCORN leaderboard vectoradd
"""Guards around streams that some hosts lack, and streams replaced for a while."""

import contextlib
import io
import os
import sys

if sys.stdout is None:
    sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
if sys.stdin is not None and sys.stdin.readable():
    sys.stdin.read()
sys.stdout.flush()
with contextlib.suppress(AttributeError, io.UnsupportedOperation):
    sys.stdout.reconfigure(line_buffering=True)


def custom_kernel(data):
    a, b = data
    with contextlib.redirect_stdout(io.StringIO()):
        print("unseen")
    return a + b
