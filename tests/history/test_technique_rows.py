from __future__ import annotations

from harness.history.technique_rows import line_words, row_words, technique_rows, value_words
from harness.techniques import Finding, State, Technique, technique_changes


def finding(
    technique: Technique, value: str = "", when: str = "", state: State = State.ENABLED, lines: tuple[int, ...] = (3,)
) -> Finding:
    return Finding(technique, value, state, lines, when)


OLD = (
    finding(Technique.TILE_SIZE, "BM=64"),
    finding(Technique.TILE_SIZE, "BN=64"),
    finding(Technique.NUM_WARPS, "8"),
    finding(Technique.SPLIT_K, "4"),
    finding(Technique.WARP_SPECIALIZATION, state=State.DECLARED),
)
NEW = (
    finding(Technique.TILE_SIZE, "BM=64"),
    finding(Technique.TILE_SIZE, "BN=128"),
    finding(Technique.NUM_WARPS, "4", "n < 9"),
    finding(Technique.NUM_WARPS, "8", "not (n < 9)"),
    finding(Technique.TMA, lines=(1, 2, 3, 4)),
    finding(Technique.WARP_SPECIALIZATION, when="hopper()"),
)


def test_what_belongs_together_is_one_row() -> None:
    rows = technique_rows(technique_changes(OLD, NEW))
    assert [row_words(row) for row in rows] == [
        "tile BN 64 → 128",
        "+ num_warps 4 if n < 9",
        "num_warps 8 → 8 if not (n < 9)",
        "+ TMA",
        "warp specialisation declared → yes if hopper()",
        "− split-K 4",
    ]


def test_words() -> None:
    assert value_words(None) == "–"
    assert value_words(NEW[4]) == "yes (lines 1, 2, 3, …)"
    assert value_words(OLD[4]) == "declared (line 3)"
    assert value_words(finding(Technique.NUM_WARPS, "4", "n" * 80), with_lines=False) == f"4 if {'n' * 59}…"
    assert line_words((7,)) == "line 7"
