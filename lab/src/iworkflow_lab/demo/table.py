"""The demo's tables, and what they are checked for."""

from __future__ import annotations

from collections.abc import Sequence

from iworkflow_lab.demo.play import Performance, Row

HEAD = ("organisation", "outcome", "steps run", "letters")


def show(performance: Performance) -> None:
    """Print one line for each organisation."""
    lines = [HEAD, *(_cells(row) for row in performance.rows.values())]
    widths = [max(len(line[n]) for line in lines) for n in range(len(HEAD))]
    print()
    _line(lines[0], widths)
    print("  " + "  ".join("─" * width for width in widths))
    for line in lines[1:]:
        _line(line, widths)
    print()


def _line(cells: Sequence[str], widths: Sequence[int]) -> None:
    print(("  " + "  ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True))).rstrip())


def _cells(row: Row) -> tuple[str, str, str, str]:
    return row.name, row.outcome, _steps(row), _letters(row)


def _steps(row: Row) -> str:
    ends = {end: _count(row, end) for end in ("fail", "cut")}
    notes = [f"{ends['fail']} failed"] if ends["fail"] else []
    notes += [f"{ends['cut']} cut off by the kill"] if ends["cut"] else []
    return f"{row.steps.total()}" + (f" ({', '.join(notes)})" if notes else "")


def _count(row: Row, end: str) -> int:
    return sum(n for step, n in row.steps.items() if step.endswith(f" {end}"))


def _letters(row: Row) -> str:
    text = str(row.letters.total())
    if row.copies:
        text += " (the kill fell between a letter and its record)" if row.excused else " (TWICE!)"
    return text


def faults(performance: Performance) -> list[str]:
    """Return what is wrong with one performance: outcomes, letters lost, letters sent twice."""
    found: list[str] = []
    for row in performance.rows.values():
        where = f"{performance.engine}: {row.name}"
        if not row.outcome.startswith(row.expected):
            found.append(f"{where}: {row.outcome}, expected: {row.expected}")
        posted = set(row.letters)
        done = {_KINDS[step] for step in _KINDS if row.steps[f"{step} end"]}
        if done - posted:
            found.append(f"{where}: lost {', '.join(sorted(done - posted))}")
        if row.copies and not row.excused:
            found.append(f"{where}: sent twice, without a kill to blame")
    return found


_KINDS = {"send": "letter", "remind": "reminder"}


def differences(one: Performance, other: Performance) -> list[str]:
    """Return a diff of two performances; empty where they came to the same."""
    found: list[str] = []
    for code in one.rows:
        mine, theirs = one.rows[code], other.rows[code]
        if mine.same != theirs.same:
            found += [f"- {one.engine}: {_said(mine)}", f"+ {other.engine}: {_said(theirs)}"]
    return found


def _said(row: Row) -> str:
    outcome, steps, letters = row.same
    return f"{row.name}: {outcome}; steps {sorted(steps)}; letters {sorted(letters)}"
