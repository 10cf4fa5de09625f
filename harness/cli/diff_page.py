"""A difference as one page: no script, no other file, light or dark as the reader's system is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise

from harness.cli.diff_screen import Difference, ratio_text, time_or_status
from harness.cli.formatting import format_case, format_class, format_time
from harness.cli.operands import Side
from harness.history.code_diff import DiffLine, LineKind
from harness.history.comparison import Change, Comparison

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --add: #2da44e22; --add-word: #2da44e66; --cut: #cf222e22;
        --cut-word: #cf222e66; --faint: #888; --good: #1a7f37; --bad: #cf222e; --doubt: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --good: #3fb950; --bad: #f85149; --doubt: #d29922; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; } .figures { display: block; overflow-x: auto; }
.figures td, .figures th { padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line); text-align: left; }
.figures td.n, .figures th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.code { width: 100%; font: 13px/1.45 ui-monospace, monospace; border: 1px solid var(--line); }
.code td { padding: 0 .5rem; vertical-align: top; white-space: pre-wrap; overflow-wrap: anywhere; }
.code td.n { color: var(--faint); text-align: right; user-select: none; white-space: nowrap; width: 1%; }
tr.add { background: var(--add); } tr.cut { background: var(--cut); } tr.fold td { color: var(--faint); }
tr.add mark { background: var(--add-word); color: inherit; }
tr.cut mark { background: var(--cut-word); color: inherit; }
.faster { color: var(--good); } .slower { color: var(--bad); } .unsure { color: var(--doubt); }
.note { color: var(--faint); }
""".strip()
_NUMBERS = ("#", "old", "new", "new/old", "old/old")
_CLASS = {LineKind.ADDED: "add", LineKind.REMOVED: "cut", LineKind.FOLD: "fold", LineKind.SAME: ""}


def difference_page(difference: Difference) -> str:
    """The HTML of a self-contained page."""
    old, new = difference.old, difference.new
    title = f"{old.short} → {new.short}"
    parts = [f"<p>old: {escape(old.title)}<br>new: {escape(new.title)}</p>"]
    if difference.renamed is not None:
        parts.append(f"<p>renamed: {escape(difference.renamed[0])} → {escape(difference.renamed[1])}</p>")
    parts += _measured(difference) if difference.measured is not None else _figures(difference)
    parts += _techniques(difference)
    parts += ["<h2>Code</h2>", _code(difference)]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_STYLE}\n{_syntax_style()}\n</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


# -- figures ----------------------------------------------------------------------------------------------------------


def _figures(difference: Difference) -> list[str]:
    comparison, new = difference.comparison, difference.new
    parts = ["<h2>Figures</h2>"]
    endings = [f"<p>{escape(line)}</p>" for line in difference.endings]
    if comparison is None or new.submission is None or difference.compared is None:
        return [*parts, *endings]
    parts += endings
    if comparison.refusal:
        return [*parts, f"<p>No comparison: {escape(comparison.refusal)}.</p>"]
    if not comparison.cases and comparison.score is None:
        return [*parts, "<p>Neither was benchmarked, so there are no figures to compare.</p>"]
    parts.append(f"<p>{escape(format_class(difference.compared[1].rank_class(new.submission.leaderboard)))}</p>")
    parts.append(_comparison_table(comparison))
    return [*parts, *(f'<p class="note">{escape(note)}</p>' for note in comparison.notes)]


def _comparison_table(comparison: Comparison) -> str:
    rows = []
    for case in comparison.cases:
        index = case.new_index if case.new_index is not None else case.old_index
        times = (
            time_or_status(case.old, case.old_status, comparison),
            time_or_status(case.new, case.new_status, comparison),
        )
        rows.append(_figure_row([str(index), format_case(case.spec), *times], case.change, comparison))
    if comparison.score is not None:
        score = comparison.score
        times = format_time(score.old, comparison.protocol), format_time(score.new, comparison.protocol)
        rows.append(_figure_row(["", "score", *times], score, comparison))
    return _table(["#", "benchmark", "old", "new", "new/old", "verdict"], rows)


def _figure_row(cells: list[str], change: Change | None, comparison: Comparison) -> str:
    verdict = "" if change is None or change.verdict is None else change.verdict.value
    number, benchmark, old, new = map(escape, cells)
    return (
        f'<td class="n">{number}</td><td>{benchmark}</td><td class="n">{old}</td><td class="n">{new}</td>'
        f'<td class="n">{escape(ratio_text(change, comparison))}</td><td class="{verdict}">{verdict}</td>'
    )


def _measured(difference: Difference) -> list[str]:
    from harness.cli.comparing import format_judged
    from harness.comparing.record import Name

    result = difference.measured
    assert result is not None
    rows = []
    for case in result.cases:
        judgement = case.judgement
        verdict = "failed" if judgement is None else judgement.verdict.value if judgement.verdict else "no verdict"
        ratio = format_judged(judgement.ratio) if judgement is not None and judgement.verdict else ""
        null = "" if judgement is None else format_judged(judgement.null)
        a, b = format_time(case.figure(Name.A)), format_time(case.figure(Name.B))
        rows.append(
            f'<td class="n">{case.index}</td><td>{escape(format_case(case.spec))}</td><td class="n">{escape(a)}</td>'
            f'<td class="n">{escape(b)}</td><td class="n">{escape(ratio)}</td><td class="{verdict}">{verdict}</td>'
            f'<td class="n">{escape(null)}</td>'
        )
    where = f"{result.leaderboard} · {format_class(result.of)}, in turns, in one session"
    overall = result.verdict
    word = f'<p class="{overall.value}">Score: {overall.value}</p>' if overall is not None else ""
    table = _table(["#", "benchmark", "old", "new", "new/old", "verdict", "old/old"], rows)
    return ["<h2>Figures</h2>", f"<p>{escape(where)}</p>", table, word]


def _table(headings: Sequence[str], rows: Iterable[str]) -> str:
    cells = "".join(
        f'<th class="n">{heading}</th>' if heading in _NUMBERS else f"<th>{heading}</th>" for heading in headings
    )
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f'<table class="figures"><tr>{cells}</tr>\n{body}\n</table>'


# -- techniques and code ----------------------------------------------------------------------------------------------


def _techniques(difference: Difference) -> list[str]:
    from harness.history.technique_rows import technique_rows, value_words

    rows = [
        f"<td>{escape(row.name)}</td><td>{escape(value_words(row.old))}</td><td>{escape(value_words(row.new))}</td>"
        for row in technique_rows(difference.technique_changes)
    ]
    return ["<h2>Techniques</h2>", _table(["technique", "before", "after"], rows)] if rows else []


def _code(difference: Difference) -> str:
    if not difference.lines:
        return "<p>The code is the same.</p>"
    old, new = _highlighted(difference.old), _highlighted(difference.new)
    return f'<table class="code">{"".join(_code_row(line, old, new) for line in difference.lines)}</table>'


def _code_row(line: DiffLine, old: Sequence[list[tuple[str, str]]], new: Sequence[list[tuple[str, str]]]) -> str:
    if line.kind is LineKind.FOLD:
        return f'<tr class="fold"><td class="n"></td><td class="n"></td><td>⋯ {escape(line.text)}</td></tr>\n'
    lines, number = (new, line.new_line) if line.new_line is not None else (old, line.old_line)
    assert number is not None
    tokens = lines[number - 1] if number <= len(lines) else [("", line.text)]
    if "".join(text for _, text in tokens) != line.text:
        tokens = [("", line.text)]
    code = _marked(tokens, line)
    numbers = "".join(f'<td class="n">{at or ""}</td>' for at in (line.old_line, line.new_line))
    return f'<tr class="{_CLASS[line.kind]}">{numbers}<td>{line.kind.value}{code}</td></tr>\n'


def _marked(tokens: Sequence[tuple[str, str]], line: DiffLine) -> str:
    """Syntax spans, cut where a changed word begins or ends."""
    edges = sorted({edge for span in line.changed for edge in span})
    result, at = [], 0
    for kind, text in tokens:
        cuts = [0, *(edge - at for edge in edges if 0 < edge - at < len(text)), len(text)]
        for start, stop in pairwise(cuts):
            piece = escape(text[start:stop])
            if kind:
                piece = f'<span class="{kind}">{piece}</span>'
            if any(first <= at + start and at + stop <= last for first, last in line.changed):
                piece = f"<mark>{piece}</mark>"
            result.append(piece)
        at += len(text)
    return "".join(result)


def _highlighted(side: Side) -> list[list[tuple[str, str]]]:
    """Each line as (CSS class, text) pairs."""
    from pygments.lexers import get_lexer_for_filename
    from pygments.lexers.special import TextLexer
    from pygments.token import STANDARD_TYPES
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_for_filename(side.file_name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        lexer = TextLexer(stripnl=False, ensurenl=False)
    lines: list[list[tuple[str, str]]] = [[]]
    for kind, text in lexer.get_tokens(side.source):
        for number, part in enumerate(text.split("\n")):
            if number:
                lines.append([])
            if part:
                lines[-1].append((STANDARD_TYPES.get(kind, ""), part))
    return lines


def _syntax_style() -> str:
    from pygments.formatters import HtmlFormatter

    def rules(style: str) -> str:
        every = HtmlFormatter(style=style).get_style_defs(".code").splitlines()
        return "\n".join(line for line in every if "{ background" not in line and not line.startswith("pre"))

    return f"{rules('default')}\n@media (prefers-color-scheme: dark) {{\n{rules('github-dark')}\n}}"
