"""What a bulk write has added itself, so that a store which was empty need not be asked for every row of it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from harness.store.database import Database

MOST_EXACT = 1 << 21
"""Of so many origins every hash is kept: in 32 MiB."""
MOST_READ = 1 << 18
"""Where the store holds more than so many, what it holds is not read: 40 MiB, and a third of a second."""
_PLACES = 1 << 26
_HAS_ROWS = "SELECT 1 FROM submissions UNION ALL SELECT 1 FROM sources LIMIT 1"
_ORIGINS = "SELECT origin FROM submissions WHERE origin IS NOT NULL"
_SOURCES = "SELECT sha256 FROM sources"


class Seen:
    """Of sources a bit for each hash, 8 MiB of them: it knows for sure of most texts that they are new, and of a few
    more the more there are that they may not be (3 % of those of a million submissions). The same of origins, or where
    up to so many are to be told `exactly`, their hashes themselves: then only what came before may have come before,
    and what the store holds is to be `read` for that.

    The store is looked at within transactions that hold the writers' lock, and only there: a sequence tells of ids that
    another writer has taken before it shows the rows that they are for.
    """

    def __init__(self, exactly: int = 0) -> None:
        self._bits = bytearray(_PLACES // 8)
        self._last_id: int | None = None  # until the store was looked at
        self._alone = False
        # At most half full: a place is found after one or two looks. 0 is an empty one.
        self._hashes = array("q", bytes(8 << (2 * exactly - 1).bit_length())) if exactly else None
        self.exact = bool(exactly)
        self._left = exactly

    def read(self, db: Database) -> None:
        """Take what the store holds for what came before; within a transaction, before anything is asked."""
        self._alone, self._last_id = True, db.last_id("submissions")
        self.again(row[0] for row in db.tuples(_SOURCES))
        self.origins_again(row[0] for row in db.tuples(_ORIGINS))

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

    def origins_again(self, origins: Iterable[str]) -> list[str]:
        """The same of origins."""
        hashes = self._hashes
        if hashes is None:
            return self.again(origins)
        mask, found = len(hashes) - 1, []
        for origin in origins:
            value = hash(origin) or 1
            place = value & mask
            while (there := hashes[place]) and there != value:
                place = (place + 1) & mask
            if there or not self._left:
                found.append(origin)
            else:
                hashes[place] = value
                self._left -= 1
        return found

    def is_all(self, db: Database) -> bool:
        """Whether nobody else has added a submission but those that were read; to be asked within a transaction that
        adds some."""
        if self._last_id is None:
            self._alone, self._last_id = not db.value(_HAS_ROWS), db.last_id("submissions")
        self._alone = self._alone and db.last_id("submissions") == self._last_id
        return self._alone

    def added(self, db: Database) -> None:
        """To be told when the transaction has added its own."""
        self._last_id = db.last_id("submissions")
