# SPDX-License-Identifier: GPL-2.0
"""kernel.py FOLDER: Documentation/networking/mpa as a kernel tree wants it. A link to a
document of the folder becomes a reference of sphinx, one to any other file its name, as
what is outside of the folder is not in the tree; and the index names all pages. For a
kernel tree FOLDER is its Documentation/networking/mpa; "mpa/index" then has to stand in
the toctree of Documentation/networking/index.rst."""

import pathlib
import re
import shutil
import sys

FROM = pathlib.Path(__file__).resolve().parents[1] / "networking/mpa"
PAGES = ("which install guide start send receive place debug security python tuf reference "
         "operator administration testers conform rdma driver porting internals").split()
LEFT_OUT = {"upstream"}     # speaks of this folder only
LINK = re.compile(r"`([^`<]+?)\s*<([\w./-]+)(#[\w-]+)?>`__", re.S)
TOCTREE = "\n.. toctree::\n   :hidden:\n\n" + "".join(f"   {page}\n" for page in PAGES)


def reference(link):
    text, path = re.sub(r"\s+", " ", link[1]), link[2]
    name = path.removesuffix(".rst")
    if "/" not in path and path.endswith(".rst") and name not in LEFT_OUT:
        return f":doc:`{name}`" if text == path else f":doc:`{text} <{name}>`"
    return text if text != path.rsplit("/", 1)[-1] else f"``{text}``"


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    there = {path.stem for path in FROM.glob("*.rst")} - LEFT_OUT
    if there != set(PAGES) | {"index"}:
        sys.exit(f"kernel.py: PAGES is not what is there: {there ^ set(PAGES) ^ {'index'}}")
    for path in sorted(FROM.iterdir()):
        if path.stem in LEFT_OUT:
            continue
        if path.suffix == ".rst":
            text = LINK.sub(reference, path.read_text())
            (folder / path.name).write_text(text + (TOCTREE if path.stem == "index" else ""))
        else:
            shutil.copy(path, folder)


main(pathlib.Path(sys.argv[1]))
