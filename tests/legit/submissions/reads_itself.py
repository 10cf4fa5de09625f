#!POPCORN leaderboard vectoradd
"""Its own file read, its own source inspected, itself imported by name, as code generators do."""

import importlib
import inspect
import pathlib
import sys

TEXT = pathlib.Path(__file__).read_text()
assert "custom_kernel" in TEXT
assert "leaderboard vectoradd" in TEXT


def add(a, b):
    return a + b


def custom_kernel(data):
    me = sys.modules[__name__]
    assert importlib.import_module(__name__) is me
    assert inspect.getsource(add).startswith("def add")
    return me.add(*data)
