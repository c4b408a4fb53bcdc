"""Formats quantities for people."""


def latency_text(latency_s: float | None, digits: int = 4) -> str:
    """A latency in seconds, with a suitable unit and ``digits`` significant digits; a dash for None."""
    if latency_s is None:
        return "-"
    for limit_s, factor, unit in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "us"), (1.0, 1e3, "ms")):
        if latency_s < limit_s:
            return f"{_rounded(latency_s * factor, digits)} {unit}"
    return f"{_rounded(latency_s, digits)} s"


def duration_text(seconds: float | None) -> str:
    """A duration in seconds as ``1:02:03`` or ``2:03``; a dash for None."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def ratio_text(slow_s: float | None, fast_s: float | None, digits: int = 3) -> str:
    """The speedup of ``fast_s`` over ``slow_s``; a dash if either is unknown."""
    return "-" if not slow_s or not fast_s else f"{_rounded(slow_s / fast_s, digits)}x"


def _rounded(value: float, digits: int) -> str:
    """Round to significant digits without an exponent: 120, not 1.2e+02."""
    return f"{float(f'{value:.{digits}g}'):.12g}"


def bytes_text(count: int) -> str:
    """A size in bytes with a binary unit."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


def counted(number: int, noun: str) -> str:
    """A number with its noun, such as ``1 trial`` or ``2 trials``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def failures_text(failures: dict[str, int]) -> str:
    """Failures by reason, most frequent first, such as ``3 (run_timeout 2, crash 1)``."""
    if not failures:
        return "0"
    ranked = sorted(failures.items(), key=lambda item: (-item[1], item[0]))
    return f"{sum(failures.values())} ({', '.join(f'{reason} {count}' for reason, count in ranked)})"
