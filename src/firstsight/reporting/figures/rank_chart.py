"""The critical-difference plot: methods on an axis of mean ranks, bars over those that cannot be told apart."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from firstsight.reporting.figures.figure_style import GRID, INK, MUTED, RIGHT, Picture, quiet, short, slug
from firstsight.reporting.recorded_results import Results
from firstsight.reporting.tables.rank_table import METRICS, Ranking, verdict

_MARGIN, _LINE, _STEP = 2.3, 0.5, 0.21  # inches: for names at either side; of the axis from above; between names


def rank_chart(results: Results, one: Ranking) -> Picture:
    """Demšar's plot of one comparison, the best method leftmost; on a phone, a row per method."""
    ranks, distance = one.comparison.ranks, one.comparison.critical_difference
    first, *_, last = ranks
    return Picture(
        f"ranks-{slug(one.metric)}-{one.kind}",
        f"{METRICS[one.metric]}, {one.kind} methods: mean rank over {len(one.datasets)} data sets",
        f"Critical-difference plot of {len(ranks)} methods: best is {first} with a mean rank of {ranks[first]:.2f}, "
        f"last {last} with {ranks[last]:.2f}; the critical difference is {distance:.2f}.",
        lambda width: (_drawn if width > 6 else _drawn_narrow)(one, set(results.settings.ours), width),
        [f"A bar joins methods that differ by less than CD {distance:.2f} (Nemenyi, 5 %). {verdict(one)}"],
    )


def _drawn(one: Ranking, ours: set[str], width: float) -> Figure:
    ranks, k = one.comparison.ranks, len(one.comparison.ranks)
    top, half = _LINE + 0.2 + 0.11 * len(one.comparison.alike), -(-k // 2)
    height = top + _STEP * half
    figure = Figure(figsize=(width, height))
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set_axis_off()
    axis.set(xlim=(0, width), ylim=(height, 0))

    def at(rank: float) -> float:
        return _MARGIN + (rank - 1) / (k - 1) * (width - 2 * _MARGIN)

    _scale(axis, at, k, one.comparison.critical_difference)
    for number, alike in enumerate(one.comparison.alike):
        ends, y = [at(ranks[alike[0]]) - 0.04, at(ranks[alike[-1]]) + 0.04], _LINE + 0.1 + 0.11 * number
        axis.plot(ends, [y, y], color=MUTED, linewidth=3.5, solid_capstyle="round", zorder=2)
    for number, (method, rank) in enumerate(ranks.items()):
        left = number < half
        y = top + _STEP * (number if left else k - 1 - number)
        edge, away, side = (_MARGIN - 0.08, -0.04, "right") if left else (width - _MARGIN + 0.08, 0.04, "left")
        words = f"{short(method, 28)}  {rank:.1f}" if left else f"{rank:.1f}  {short(method, 28)}"
        axis.plot([at(rank), at(rank), edge], [_LINE, y, y], color=RIGHT if method in ours else GRID, linewidth=0.9)
        axis.plot(at(rank), _LINE, "o", color=INK, markersize=3, zorder=3)
        weight = "bold" if method in ours else "normal"
        axis.text(edge + away, y, words, ha=side, va="center", fontsize=8.5, weight=weight)
    return figure


def _scale(axis: Axes, at: Callable[[float], float], k: int, distance: float) -> None:
    """The axis of ranks, and above it how far apart two methods must be."""
    axis.plot([at(1), at(k)], [_LINE, _LINE], color=INK, linewidth=1)
    every = -(-k // 20)
    for rank in range(1, k + 1, every):
        axis.plot([at(rank)] * 2, [_LINE - 0.06, _LINE], color=INK, linewidth=0.8)
        axis.text(at(rank), _LINE - 0.09, str(rank), ha="center", va="bottom", fontsize=8.5)
    end = min(1 + distance, k)
    axis.plot([at(1), at(end)], [0.12, 0.12], color=RIGHT, linewidth=2.5, solid_capstyle="butt")
    axis.text(at(end) + 0.06, 0.12, f"CD {distance:.2f}", va="center", fontsize=8.5, color=RIGHT)


def _drawn_narrow(one: Ranking, ours: set[str], width: float) -> Figure:
    ranks, k, distance = one.comparison.ranks, len(one.comparison.ranks), one.comparison.critical_difference
    order = list(ranks)
    figure = Figure(figsize=(width, 0.8 + _STEP * k), layout="constrained")
    axis = figure.subplots()
    for number, alike in enumerate(one.comparison.alike):
        x = k + 0.03 * k * (number + 1.5)
        rows = [order.index(alike[0]) - 0.2, order.index(alike[-1]) + 0.2]
        axis.plot([x, x], rows, color=MUTED, linewidth=3, solid_capstyle="round", clip_on=False)
    axis.plot(list(ranks.values()), range(k), "o", color=INK, markersize=4.5)
    axis.plot([1, min(1 + distance, k)], [-1, -1], color=RIGHT, linewidth=2.5, solid_capstyle="butt")
    axis.set_yticks([-1, *range(k)], [f"CD {distance:.2f}", *(f"{short(m, 28)}  {r:.1f}" for m, r in ranks.items())])
    for label, method in zip(axis.get_yticklabels()[1:], order, strict=True):
        label.set_fontweight("bold" if method in ours else "normal")
    axis.set(xlim=(0.5, k + 0.03 * k * (len(one.comparison.alike) + 1)), ylim=(k - 0.4, -1.6))
    quiet(axis, xlabel="mean rank")
    axis.tick_params(axis="y", length=0)
    return figure
