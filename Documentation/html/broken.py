# SPDX-License-Identifier: GPL-2.0
"""broken.py FOLDER: links and pictures of HTML files that lead to no file in the folder,
or to no place in it."""

import html.parser
import pathlib
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    """What a page links to, and the places in it."""

    def __init__(self, path):
        super().__init__()
        self.links, self.places = set(), set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.places.update(attrs[name] for name in ("id", "name") if attrs.get(name))
        self.links.update(attrs[name] for name in ("href", "src") if attrs.get(name))


def main(folder):
    pages = {path: Page(path) for path in folder.rglob("*.html")}
    broken = links = 0
    for path, page in sorted(pages.items()):
        for link in sorted(page.links):
            to = urllib.parse.urlsplit(link)
            if to.scheme or to.netloc:
                continue
            links += 1
            file = (path.parent / urllib.parse.unquote(to.path)).resolve() if to.path else path
            if not file.is_file():
                print(f"{path.relative_to(folder)}: {link} is not there")
            elif to.fragment and file in pages and to.fragment not in pages[file].places:
                print(f"{path.relative_to(folder)}: {link}: no such place")
            else:
                continue
            broken += 1
    if broken or not links:
        sys.exit(f"{broken} of {links} links lead nowhere")


main(pathlib.Path(sys.argv[1]).resolve())
