#!POPCORN leaderboard vectoradd
"""A thread of the file's own that lives as long as the process and mostly sleeps, as some libraries have."""

import threading
import time

BEATS = []


def beat():
    while True:
        time.sleep(0.01)
        BEATS.append(time.monotonic())


threading.Thread(target=beat, daemon=True).start()


def custom_kernel(data):
    a, b = data
    return a + b
