# SPDX-License-Identifier: GPL-2.0
"""Charts as SVG that diff can read: a line for each thing drawn."""

import math
from xml.sax.saxutils import escape

COLOURS = ["#4c6a92", "#8fa8c8", "#b8b8b8", "#d9a441", "#c8553d", "#6a994e",
           "#a7c957", "#7d5ba6", "#3f3f3f", "#e0a0a0", "#60b0b0", "#c0a080"]
STYLE = ("font-family: sans-serif; font-size: 12px; fill: #303030; "
         "background: #ffffff")


def _frame(width, height, lines):
    return "\n".join(
        ["<!-- SPDX-License-Identifier: GPL-2.0; made by bench/report -->",
         f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
         f'height="{height}" viewBox="0 0 {width} {height}" style="{STYLE}">',
         f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
         *lines, "</svg>", ""])


def _text(x, y, text, anchor="start", weight="normal"):
    return (f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{escape(text)}</text>')


def _rect(x, y, width, colour):
    return (f'<rect x="{x:.0f}" y="{y:.0f}" width="{max(width, 1):.1f}" '
            f'height="13" fill="{colour}"/>')


def bars(title, groups, left=190, right=560):
    """groups: [(title, [(name, value, colour number)])]; a bar each. Each group
    has a scale of its own."""
    lines = [_text(10, 20, title, weight="bold")]
    y = 30
    for group, rows in groups:
        y += 22
        lines.append(_text(10, y, group, weight="bold"))
        y += 6
        top = max(value for _, value, _ in rows)
        for name, value, colour in rows:
            length = (right - left) * value / top
            lines.append(_text(left - 8, y + 11, name, "end"))
            lines.append(_rect(left, y, length, COLOURS[colour]))
            said = f"{value:.1f}" if value < 100 else f"{value:.0f}"
            lines.append(_text(left + length + 6, y + 11, said))
            y += 17
    return _frame(right + 100, y + 12, lines)


def stacks(title, columns, keys, left=150, right=620):
    """columns: [(name, {key: value})]: a bar of pieces each."""
    lines = [_text(10, 20, title, weight="bold")]
    top = max(sum(values.values()) for _, values in columns)
    y = 34
    for name, values in columns:
        x = left
        lines.append(_text(left - 8, y + 11, name, "end"))
        for i, key in enumerate(keys):
            length = (right - left) * values.get(key, 0) / top
            if length >= 0.5:
                lines.append(_rect(x, y, length, COLOURS[i % len(COLOURS)]))
            x += length
        lines.append(_text(x + 6, y + 11, f"{sum(values.values()):.2f}"))
        y += 20
    y += 12
    for i, key in enumerate(keys):
        lines.append(_rect(left, y, 13, COLOURS[i % len(COLOURS)]))
        lines.append(_text(left + 20, y + 11, key))
        y += 17
    return _frame(right + 160, y + 8, lines)


def tails(title, curves, span, least, unit, left=60, width=560, height=300):
    """curves: [(name, sorted values, colour number, dashed)]: which share of the
    values is larger, both axes logarithmic: span[0] to span[1], 1 to least."""
    top = 36
    low, high = (math.log10(value) for value in span)
    deep = -math.log10(least)

    def across(value):
        value = min(max(value, span[0]), span[1])
        return left + width * (math.log10(value) - low) / (high - low)

    def down(share):
        return top + height * -math.log10(max(share, least)) / deep

    lines = [_text(10, 20, title, weight="bold")]
    for decade in range(round(low), round(high) + 1):
        x = across(10 ** decade)
        lines.append(f'<path d="M{x:.0f} {top}v{height}" stroke="#e0e0e0"/>')
        lines.append(_text(x, top + height + 16, f"{10 ** decade:g}", "middle"))
    for decade in range(round(deep) + 1):
        y = down(10 ** -decade)
        lines.append(f'<path d="M{left} {y:.0f}h{width}" stroke="#e0e0e0"/>')
        lines.append(_text(left - 6, y + 4, f"{100 * 10 ** -decade:g} %", "end"))
    lines.append(_text(left + width / 2, top + height + 32, unit, "middle"))
    y = top + height + 46
    for name, values, colour, dashed in curves:
        points, last = [], None
        for i, value in enumerate(values):
            at = f"{across(value):.0f} {down(1 - i / len(values)):.0f}"
            if at != last:
                points.append(at)
            last = at
        dash = ' stroke-dasharray="6 4"' if dashed else ""
        line = f'fill="none" stroke="{COLOURS[colour]}" stroke-width="2"{dash}/>'
        lines.append(f'<path d="M{" ".join(points)}" {line}')
        lines.append(f'<path d="M{left} {y}h30" {line}')
        lines.append(_text(left + 40, y + 4, name))
        y += 18
    return _frame(left + width + 40, y + 4, lines)
