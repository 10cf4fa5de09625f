"""Every secret of an evaluation, derived from one root that only the supervisor and the store know."""

from __future__ import annotations

import hashlib
import random
import secrets
from dataclasses import dataclass


@dataclass(frozen=True)
class Seeds:
    """`derive` gives independent numbers for every use; the same root gives them again, to repeat a failure."""

    root: int

    @classmethod
    def fresh(cls) -> Seeds:
        return cls(secrets.randbits(63))

    def derive(self, *use: str | int) -> int:
        """A seed of 31 bits, which every generator takes, for one use, e.g. `derive("timed", case, call)`."""
        text = f"{self.root}:" + ":".join(map(str, use))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1

    def random(self, *use: str | int) -> random.Random:
        """A generator for choices that the submission must not foresee."""
        return random.Random(self.derive(*use))
