"""A worker that starts as a program of its own, for sandboxes that cannot be entered from within.

Run as `python -m harness.worker.cold FD`, with the worker's channel on FD.
"""

from __future__ import annotations

import socket
import sys

from harness.worker.main import run_worker

if __name__ == "__main__":
    run_worker(socket.socket(fileno=int(sys.argv[1])))
