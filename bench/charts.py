# SPDX-License-Identifier: GPL-2.0
"""Charts as SVG that diff can read: a line for each thing drawn."""

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
