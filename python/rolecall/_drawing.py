"""How drawings are shown: in a terminal or in a notebook."""

from __future__ import annotations

import os
import sys


def looks() -> tuple[bool, int | None]:
    """Return whether standard output shows colors, and its width in columns if it is a terminal."""
    try:
        is_terminal = sys.stdout.isatty()
    except (AttributeError, ValueError):
        # There is none, or it is closed.
        is_terminal = False
    if not is_terminal:
        return False, None
    import shutil

    color = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return color, shutil.get_terminal_size().columns


def frame(page: str, rows: int) -> str:
    """Return an HTML page as a part of another one.

    The frame keeps the page's styles to itself. Its sandbox forbids scripts, forms and links to the
    page around it, whatever the page holds.
    """
    import html

    height = min(240 + 24 * rows, 640)
    style = f"width: 100%; height: {height}px; border: 0"
    return f'<iframe sandbox="" style="{style}" srcdoc="{html.escape(page)}"></iframe>'
