from __future__ import annotations
def prepare(): pass
def install(c): pass
