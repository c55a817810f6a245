# SPDX-License-Identifier: GPL-2.0
"""For sphinx: the documents read as well here as in a web view of git.

A link to a file of the project leads to that document's page, and bears the page's name
where it bore the file's. The name of a manual page, as mpa-show(1), is such a link too.
What leads nowhere is a warning. The list of contents goes, as the theme has its own.
Programs that are included have their colours."""

import posixpath
import re

from docutils import nodes
from sphinx import addnodes
from sphinx.util import logging

LOG = logging.getLogger(__name__)
MANUAL = re.compile(r"\b(mpa(?:-[a-z]+)?)\(1\)")
MANUALS = "tools/mpa/man/"


def page_of(env, path):
    """The name of the page for a path in the project, or None."""
    for name in (path, re.sub(r"\.(rst|md)$", "", path), path + "/index"):
        if name in env.found_docs:
            return name
    return None


def has_heading(env, page, anchor):
    return any(anchor in node.get("ids", ())
               for node in env.get_doctree(page).findall(nodes.Element))


def names(env):
    """What the start page calls each page."""
    if not hasattr(env, "mpa_names"):
        env.mpa_names = {
            page: title
            for tree in env.get_doctree("index").findall(addnodes.toctree)
            for title, page in tree["entries"] if title}
    return env.mpa_names


def lead(app, page, link):
    """Has a link lead to a page, if it is not to another site."""
    to = link.get("refuri", "")
    if not to or link.get("internal") or re.match(r"[a-z]+:", to):
        return
    path, _, anchor = to.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
    target = page_of(app.env, path)
    if not target or anchor and not has_heading(app.env, target, anchor):
        LOG.warning("a link to %s, where nothing is", to, location=link)
        return
    link["refuri"] = app.builder.get_relative_uri(page, target) + (anchor and "#" + anchor)
    link["internal"] = True
    if link.astext() == posixpath.basename(path) and target in names(app.env):
        link.children = []
        link += nodes.Text(names(app.env)[target])


def manual_links(app, page, text):
    """Text with links where it names manual pages that are there."""
    parts, end = [], 0
    for found in MANUAL.finditer(text):
        target = page_of(app.env, MANUALS + found[1])
        if not target or target == page:
            continue
        parts.append(nodes.Text(text[end:found.start()]))
        parts.append(nodes.reference("", found[0], internal=True,
                     refuri=app.builder.get_relative_uri(page, target)))
        end = found.end()
    return parts and parts + [nodes.Text(text[end:])]


def resolve(app, doctree, page):
    for link in list(doctree.findall(nodes.reference)):
        lead(app, page, link)
    for text in list(doctree.findall(nodes.Text)):
        inside = text.parent
        if isinstance(inside, (nodes.literal_block, nodes.title, nodes.reference)):
            continue
        parts = manual_links(app, page, text.astext())
        if parts:
            inside.replace(text, parts)


def read_manual(doctree):
    """A manual page's second title is a sentence; its section is the heading's."""
    for fields in list(doctree.findall(nodes.field_list))[:1]:
        fields.parent.remove(fields)
    outer = doctree.next_node(nodes.section)
    inner = outer and outer.next_node(nodes.section)
    if inner and inner.parent is outer:
        outer.remove(inner)
        outer += nodes.paragraph("", inner[0].astext(), classes=["lead"])
        outer += inner[1:]


def read(app, doctree):
    if app.env.docname.startswith(MANUALS):
        read_manual(doctree)
    for topic in list(doctree.findall(nodes.topic)):
        if "contents" in topic["classes"]:
            topic.parent.remove(topic)
    for title in doctree.findall(nodes.title):
        title.attributes.pop("refid", None)
    for block in doctree.findall(nodes.literal_block):
        if block["classes"][:1] == ["code"]:
            block["language"] = block["classes"][1]
            block.rawsource = block.astext()
            block.children = [nodes.Text(block.rawsource)]


def setup(app):
    # Before sphinx looks for headings
    app.connect("doctree-read", read, priority=100)
    app.connect("doctree-resolved", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
