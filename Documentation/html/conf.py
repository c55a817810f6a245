# SPDX-License-Identifier: GPL-2.0
"""The configuration of sphinx for "make html"; see build."""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

project = "mpa"
release = subprocess.check_output(pathlib.Path(__file__).parents[2] / "scripts/version",
                                  text=True).strip()
copyright = "the authors of mpa; GPL-2.0"
extensions = ["myst_parser", "sphinx_copybutton", "links"]

# What is copied is what is typed.
copybutton_prompt_text = r"[a-z]*\$ |[a-z]+# "
copybutton_prompt_is_regexp = True
html_theme = "furo"
html_title = f"mpa {release}"
html_static_path = ["look"]
html_css_files = ["look.css"]
html_copy_source = False
html_show_sphinx = False
html_last_updated_fmt = None
highlight_language = "none"
smartquotes = False
toc_object_entries = False

# A link in Markdown is a link: links.py sees where it leads.
myst_all_links_external = True

# These are no page's part until the start page names them.
suppress_warnings = ["myst.header"]

html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#1f5f99",
        "color-brand-content": "#1f5f99",
        "font-stack": "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif",
        "font-stack--monospace": "ui-monospace, 'DejaVu Sans Mono', monospace",
    },
    "dark_css_variables": {
        "color-brand-primary": "#7fb8ea",
        "color-brand-content": "#7fb8ea",
    },
}


def dark_as_the_system(app, exception):
    """Debian's furo has lost its rules for a system that is dark: its own for a reader who
    has chosen dark hold then as well."""
    styles = pathlib.Path(app.outdir) / "_static" / "styles" / "furo.css"
    if exception or not styles.exists() or "prefers-color-scheme" in styles.read_text():
        return
    rules = re.search(r'body\[data-theme="dark"\] \{(.*?)\}', styles.read_text(), re.S)
    with styles.open("a") as file:
        file.write("@media not print { @media (prefers-color-scheme: dark) {\n"
                   f'body:not([data-theme="light"]) {{{rules[1]}}}\n}} }}\n')


def setup(app):
    app.connect("build-finished", dark_as_the_system)
