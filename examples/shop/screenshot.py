#!/usr/bin/env python3
"""Renders a terminal capture (tmux capture-pane -e) as SVG: screenshot.py TITLE <capture >picture.svg"""
import html
import re
import sys

COLOURS = {30: "#3b4252", 31: "#bf616a", 32: "#8fbf7f", 33: "#d8b25f", 34: "#7aa2d6", 35: "#b48ead",
           36: "#7fbfbf", 37: "#d8dee9", 90: "#7b8494"}
TEXT, DIM, BACK, BAR = "#d8dee9", "#7b8494", "#1e222a", "#2a2f3a"
WIDTH, HEIGHT, LEFT, TOP = 8.43, 19, 16, 52


def runs(line):
    """(column, text, style) of each stretch of one style."""
    style, column = {}, 0
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        match = re.match(r"\x1b\[([0-9;]*)m", part)
        if not match:
            text = re.sub(r"\x1b.", "", part)
            if text.strip():
                yield column, text, dict(style)
            column += len(text)
            continue
        for code in [int(c or 0) for c in match.group(1).split(";")]:
            if code == 0:
                style = {}
            elif code == 1:
                style["bold"] = True
            elif code == 2:
                style["dim"] = True
            elif code == 39:
                style.pop("colour", None)
            elif code in COLOURS:
                style["colour"] = COLOURS[code]


lines = [line.rstrip() for line in sys.stdin.read().splitlines()]
while lines and not lines[-1]:
    lines.pop()
columns = max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in lines)
width, height = int(columns * WIDTH + 2 * LEFT), len(lines) * HEIGHT + TOP + 10
print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
      f'viewBox="0 0 {width} {height}" font-family="Menlo, Consolas, DejaVu Sans Mono, monospace" '
      f'font-size="14">')
print(f'<rect width="{width}" height="{height}" rx="8" fill="{BACK}"/>')
print(f'<path d="M0 8a8 8 0 0 1 8-8h{width - 16}a8 8 0 0 1 8 8v22H0z" fill="{BAR}"/>')
for i, colour in enumerate(("#bf616a", "#d8b25f", "#8fbf7f")):
    print(f'<circle cx="{18 + 18 * i}" cy="15" r="5" fill="{colour}"/>')
print(f'<text x="{width / 2}" y="20" text-anchor="middle" fill="{DIM}" font-size="13">'
      f'{html.escape(sys.argv[1])}</text>')
for row, line in enumerate(lines):
    for column, text, style in runs(line):
        fill = style.get("colour", DIM if style.get("dim") else TEXT)
        weight = ' font-weight="bold"' if style.get("bold") else ""
        lead = len(text) - len(text.lstrip())
        print(f'<text x="{LEFT + (column + lead) * WIDTH:.1f}" y="{TOP + row * HEIGHT}" fill="{fill}"{weight} '
              f'xml:space="preserve">{html.escape(text.strip())}</text>')
print("</svg>")
