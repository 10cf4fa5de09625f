"""What a bulk write has added itself, so that a store which was empty need not be asked for every row of it."""

from __future__ import annotations

from collections.abc import Iterable

from harness.store.database import Database

_PLACES = 1 << 26
_HAS_ROWS = "SELECT 1 FROM submissions UNION ALL SELECT 1 FROM sources LIMIT 1"


class Seen:
    """A bit for each hash, 8 MiB of them: it knows for sure of most texts that they are new, and of a few more the more
    there are that they may not be (3 % of those of a million submissions)."""

    def __init__(self, db: Database) -> None:
        self._bits = bytearray(_PLACES // 8)
        self._last_id = db.last_id("submissions")
        self._alone = not db.value(_HAS_ROWS)

    def again(self, texts: Iterable[str]) -> list[str]:
        """Those that may have come before. All have come from now on."""
        bits, mask, found = self._bits, _PLACES - 1, []
        for text in texts:
            place = hash(text) & mask
            bit = 1 << (place & 7)
            if bits[place >> 3] & bit:
                found.append(text)
            else:
                bits[place >> 3] |= bit
        return found

    def is_all(self, db: Database) -> bool:
        """Whether nobody else has added a submission since; to be asked within a transaction that adds some."""
        self._alone = self._alone and db.last_id("submissions") == self._last_id
        return self._alone

    def added(self, db: Database) -> None:
        """To be told when the transaction has added its own."""
        self._last_id = db.last_id("submissions")
