"""The critical-difference plot: methods on an axis of mean ranks, bars over those that cannot be told apart."""

from __future__ import annotations

from matplotlib.figure import Figure

from firstsight.reporting.figures.figure_style import GRID, INK, MUTED, RIGHT, Picture, short, slug
from firstsight.reporting.recorded_results import Results
from firstsight.reporting.tables.rank_table import METRICS, Ranking, verdict


def rank_chart(results: Results, one: Ranking) -> Picture:
    """Demšar's plot of one comparison; the best method is leftmost."""
    ranks = one.found.ranks
    first, *_, last = ranks
    title = f"{METRICS[one.metric]}, {one.kind} methods: mean rank over {len(one.datasets)} data sets"
    return Picture(
        f"ranks-{slug(one.metric)}-{one.kind}",
        title,
        f"Critical-difference plot of {len(ranks)} methods: best is {first} with a mean rank of {ranks[first]:.2f}, "
        f"last {last} with {ranks[last]:.2f}; the critical difference is {one.found.critical_difference:.2f}.",
        lambda width: _drawn(results, one, width),
        [
            "A bar joins methods that cannot be told apart (Nemenyi, 5 %); CD is how far apart two must be.",
            verdict(one),
        ],
    )


def _drawn(results: Results, one: Ranking, width: float) -> Figure:
    ranks, distance = one.found.ranks, one.found.critical_difference
    k, size = len(ranks), 8.5 if width > 6 else 7.0
    step, half = 0.21, -(-k // 2)
    bars = len(one.found.alike)
    height = 0.75 + 0.11 * bars + step * half
    figure = Figure(figsize=(width, height))
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set_axis_off()
    margin = 2.1 if width > 6 else 1.18  # inches for names at either side
    axis.set(xlim=(0, width), ylim=(height, 0))

    def at(rank: float) -> float:
        return margin + (rank - 1) / (k - 1) * (width - 2 * margin)

    line = 0.5
    axis.plot([at(1), at(k)], [line, line], color=INK, linewidth=1)
    every = max(1, round(k / (12 if width > 6 else 5)))
    for rank in range(1, k + 1):
        long = (rank - 1) % every == 0 or rank == k
        axis.plot([at(rank)] * 2, [line - (0.07 if long else 0.04), line], color=INK, linewidth=0.8)
        if long and not (rank != k and k - rank < every):
            axis.text(at(rank), line - 0.09, str(rank), ha="center", va="bottom", fontsize=size)
    end = min(1 + distance, k)
    axis.plot([at(1), at(end)], [0.12, 0.12], color=RIGHT, linewidth=2.5, solid_capstyle="butt")
    axis.text(at(end) + 0.06, 0.12, f"CD {distance:.2f}", va="center", fontsize=size, color=RIGHT)
    for number, alike in enumerate(one.found.alike):
        y = line + 0.1 + 0.11 * number
        axis.plot(
            [at(ranks[alike[0]]) - 0.04, at(ranks[alike[-1]]) + 0.04],
            [y, y],
            color=MUTED,
            linewidth=3.5,
            solid_capstyle="round",
        )
    top = line + 0.2 + 0.11 * bars
    for number, (method, rank) in enumerate(ranks.items()):
        left = number < half
        y = top + step * (number if left else k - 1 - number)
        edge = margin - 0.08 if left else width - margin + 0.08
        axis.plot(
            [at(rank), at(rank), edge],
            [line, y, y],
            color=GRID if method not in results.settings.ours else RIGHT,
            linewidth=0.9,
            zorder=0,
        )
        axis.plot(at(rank), line, "o", color=INK, markersize=3)
        words = (
            f"{short(method, 30 if width > 6 else 17)}  {rank:.1f}",
            f"{rank:.1f}  {short(method, 30 if width > 6 else 17)}",
        )
        axis.text(edge + (-0.04 if left else 0.04), y, words[not left], ha="right" if left else "left", va="center",
                  fontsize=size, weight="bold" if method in results.settings.ours else "normal")  # fmt: skip
    return figure
