# SPDX-License-Identifier: GPL-2.0
"""stage.py FOLDER: copies the documents to it for sphinx, each at its path in the project.
The start page becomes index.rst. Text and pictures that documents link to, such as
programs, get a page of their own."""

import pathlib
import re
import shutil
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = ("*.md", "Documentation/*.rst", "Documentation/*.md",
             "Documentation/man/*.rst",
             "Documentation/networking/mpa/*.rst", "tools/mpa/man/*.rst", "samples/*/*.rst")
BESIDE = ("Documentation/*.svg", "Documentation/networking/mpa/*.svg",
          "Documentation/networking/mpa/*.c", "Documentation/networking/mpa/*.py",
          "tools/mpa/man/*.inc")
# Where a document says that a file is
LINK = re.compile(r"<([\w./-]+)(?:#[\w-]+)?>`__|\]\(([\w./-]+)(?:#[\w-]+)?\)")
LANGUAGES = {".c": "c", ".h": "c", ".py": "python", ".yaml": "yaml"}


def pages():
    """Yields the path and the text of each file that sphinx is to find."""
    linked = set()
    for pattern in DOCUMENTS:
        for path in sorted(TOP.glob(pattern)):
            text = path.read_text()
            for link in LINK.finditer(text):
                linked.add((path.parent / (link[1] or link[2])).resolve())
            yield path.relative_to(TOP), text
    for pattern in BESIDE:
        for path in TOP.glob(pattern):
            yield path.relative_to(TOP), path.read_text()
    for path in sorted(linked):
        if path.is_file() and path.suffix not in (".rst", ".md"):
            yield from shown(path.relative_to(TOP))
    start = (TOP / "Documentation/html/start.rst.in").read_text()
    if any((TOP / "tools/mpa/man").glob("*.rst")):
        start = re.sub(r"^\.\. man: ?", "", start, flags=re.M)
    yield pathlib.Path("index.rst"), start


def shown(path):
    """A page that shows a file, text or picture, and the file."""
    show = (f".. image:: /{path}" if path.suffix == ".svg" else
            f".. literalinclude:: /{path}\n   :language: {LANGUAGES.get(path.suffix, 'none')}")
    title = str(path)
    yield path.with_name(path.name + ".rst"), (
        f":orphan:\n\n{title}\n{'=' * len(title)}\n\n{show}\n")
    yield path, (TOP / path).read_text()


def main(out):
    if out.exists():
        shutil.rmtree(out)
    for path, text in pages():
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_text(text)


main(pathlib.Path(sys.argv[1]).resolve())
