"""What a bulk write has added itself, so that a store which was empty need not be asked for every row of it."""

from __future__ import annotations

from collections.abc import Iterable

from harness.store.database import Database

_PLACES = 1 << 24
_HAS_ROWS = "SELECT 1 FROM submissions UNION ALL SELECT 1 FROM sources LIMIT 1"


class Seen:
    """A Bloom filter of 2 MiB: it knows for sure of most texts that they are new, and of a few more the more there are
    that they may not be (3 % of those of a million submissions)."""

    def __init__(self, db: Database) -> None:
        self._bits = bytearray(_PLACES // 8)
        self._last_id = db.last_id("submissions")
        self._alone = not db.value(_HAS_ROWS)

    def again(self, texts: Iterable[str]) -> list[str]:
        """Those that may have come before. All have come from now on."""
        bits, found = self._bits, []
        for text in texts:
            digest = hash(text)
            new = False
            for place in (digest, digest >> 20, digest >> 40):
                byte, bit = (place & _PLACES - 1) >> 3, 1 << (place & 7)
                if not bits[byte] & bit:
                    bits[byte] |= bit
                    new = True
            if not new:
                found.append(text)
        return found

    def is_all(self, db: Database) -> bool:
        """Whether nobody else has added a submission since; to be asked within a transaction that adds some."""
        self._alone = self._alone and db.last_id("submissions") == self._last_id
        return self._alone

    def added(self, db: Database) -> None:
        """To be told when the transaction has added its own."""
        self._last_id = db.last_id("submissions")
