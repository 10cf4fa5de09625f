"""The techniques of recorded sources: those kept with the submission, else read from the text now."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from harness.techniques import EXTRACTOR_VERSION, Finding
from harness.techniques.codec import from_json, to_json

if TYPE_CHECKING:
    from harness.store import Reader, Store


class SourceTechniques:
    """Looks techniques up by source. `budget_s` bounds the processor time spent on sources of which none are kept."""

    def __init__(self, reader: Reader, budget_s: float | None = None) -> None:
        self._reader, self._left_s = reader, budget_s
        self._known: dict[str, tuple[Finding, ...]] = {}
        self.skipped = 0
        """Sources that the budget left unread."""

    def of(self, sha256: str, file_name: str) -> tuple[Finding, ...] | None:
        """The findings of a recorded source; None when the budget is spent."""
        if sha256 in self._known:
            return self._known[sha256]
        kept = self._reader.techniques(sha256, EXTRACTOR_VERSION)
        if kept is not None:
            self._known[sha256] = from_json(kept)
        elif self._left_s is not None and self._left_s <= 0:
            self.skipped += 1
            return None
        else:
            from harness.techniques import extract

            started = time.thread_time()
            self._known[sha256] = extract(self._reader.source(sha256), file_name)
            if self._left_s is not None:
                self._left_s -= time.thread_time() - started
        return self._known[sha256]


def keep_techniques(store: Store, source: str, file_name: str) -> None:
    """Read a recorded source and keep what it does with it."""
    import hashlib

    from harness.techniques import extract

    sha256 = hashlib.sha256(source.encode("utf-8")).hexdigest()
    store.keep_techniques(sha256, EXTRACTOR_VERSION, to_json(extract(source, file_name)))
