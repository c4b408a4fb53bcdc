"""The waterfall of a tuned model, as lines of text."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tunefarm_schemas.views.jobs.waterfall import (
    WaterfallRow,
    bucket_cells,
    gain_line,
    predicted_s,
    shipped_line,
    times_cells,
    waterfall,
)
from tunefarm_schemas.views.quantities import counted, latency_text
from tunefarm_schemas.visible_text import visible_line

MAX_ROWS: Final = 24
"""Maximum number of tasks with a line each; ``--json`` contains all."""
NAME_CHARACTERS: Final = 40
HEADINGS: Final = (
    "function", "calls", "untuned", "untried", "tuned", "library", "roofline", "bound", "in a run", "share", "GFLOP/s",
    "trials", "winner",
)  # fmt: skip


def model_text(summary: Mapping[str, Any], built: Mapping[str, Any] | None = None) -> str:
    """A table with a line for each function of a model, and the sums. Libraries have a column if any was timed."""
    rows = waterfall(summary, built)
    return "\n".join([*_aligned(_with_libraries(waterfall_cells(rows))), gain_line(rows)])


def waterfall_cells(rows: Sequence[WaterfallRow]) -> list[tuple[str, ...]]:
    """The cells of that table: headings, at most ``MAX_ROWS`` functions, the others, the sums."""
    shown, left_out = rows[:MAX_ROWS], rows[MAX_ROWS:]
    cells = [HEADINGS, *(_cells(row) for row in shown)]
    if left_out:
        rest_s = sum(row.in_run_s or 0.0 for row in left_out)
        name, share = counted(len(left_out), "other"), sum(row.share or 0.0 for row in left_out)
        cells.append((name, *[""] * 7, latency_text(rest_s), f"{share:.1%}", "", str(_trials(left_out)), ""))
    untuned, untried, tuned, roofline = (
        latency_text(predicted_s(rows, which)) for which in ("untuned", "untried", "tuned", "roofline")
    )
    calls = f"{sum(row.calls for row in rows):g}"
    sums = (calls, untuned, untried, tuned, "", roofline, "", tuned, "", "", str(_trials(rows)), "")
    return [*cells, ("sum of calls", *sums)]


def built_text(figures: Mapping[str, Any], rows: Sequence[WaterfallRow]) -> str:
    """The predicted and the measured times of a built model as a table, and which of its builds ships."""
    buckets = bucket_cells(figures)
    return "\n".join([*_aligned(times_cells(figures, rows)), *_aligned(buckets), shipped_line(figures)])


def _with_libraries(cells: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """Without the column of libraries if none was timed."""
    at = HEADINGS.index("library")
    if any(line[at] not in {"", "-"} for line in cells[1:]):
        return cells
    return [[*line[:at], *line[at + 1 :]] for line in cells]


def _aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]) if cells else 0)]
    return [_line(line, widths) for line in cells]


def _trials(rows: Sequence[WaterfallRow]) -> int:
    return sum(row.trials for row in rows)


def _cells(row: WaterfallRow) -> tuple[str, ...]:
    return (
        visible_line(row.name)[:NAME_CHARACTERS],
        f"{row.calls:g}",
        latency_text(row.untuned_s),
        latency_text(row.untried_s),
        latency_text(row.tuned_s),
        latency_text(row.library_s),
        latency_text(row.roofline_s),
        row.bound or "-",
        latency_text(row.in_run_s),
        "-" if row.share is None else f"{row.share:.1%}",
        f"{row.gigaflops:.3g}" if row.gigaflops else "-",
        str(row.trials),
        row.winner or "-",
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """The first column is aligned left, the others right."""
    first, *rest = (cell.ljust(widths[0]) if n == 0 else cell.rjust(widths[n]) for n, cell in enumerate(cells))
    return "  ".join([first, *rest]).rstrip()
