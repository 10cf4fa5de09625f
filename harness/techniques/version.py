"""Which rules a result was made by."""

from __future__ import annotations

EXTRACTOR_VERSION = 1
"""Stored with every result. Raise it when a rule changes what is found."""
