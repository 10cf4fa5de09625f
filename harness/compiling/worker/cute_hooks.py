from __future__ import annotations
def prepare(c): pass
def install(c): pass
