# SPDX-License-Identifier: GPL-2.0
"""Forms of files in the kernel's tree: functions from text to text, for series. Each
edit must match: if it does not, the sources have changed, and this file must be
adapted.
"""

import glob
import os
import re
import sys
import textwrap

# These documents concern this repository.
NOT_EXPORTED = ("upstream.rst",)

SELFTESTS = "tools/testing/selftests/net/mpa/"


def edit(where, text, *edits):
    """Apply edits: each is (pattern, replacement)."""
    for pattern, replacement in edits:
        text, n = re.subn(pattern, replacement, text, flags=re.M)
        if not n:
            sys.exit(f"series: {where} no longer has {pattern!r}: "
                     "bring scripts/export.d/forms.py up to date")
    return text


def function(name):
    """Return a pattern for the definition of NAME, with the comment before it."""
    return (r"^(/\*(?:[^*]|\*(?!/))*\*/\n)?(static|int|void|bool)\b[^;{}()=]*\b"
            + name + r"\([^{;]*\)\n\{\n(?:.*\n)*?\}\n\n?")


# ---- compat.h ----

def lacks(compat):
    """Return the names that compat.h supplies, without unused branches."""
    names = re.findall(r"^static inline [^(;]*?(\w+)\(", compat, re.M)
    names += re.findall(r"^u32 (\w+)\(", compat, re.M)
    names += re.findall(r"^#define (\w+)(?:\([^)]*\))?[ \t]+\S", compat, re.M)
    none = {"mpa_compat_init", "mpa_compat_exit", "__counted_by"}
    return sorted(set(names) - none)


# These replace compat.h in a tree that has everything.
INCLUDES = {
    "mpa_proto.h": "#include <linux/kernel.h>\n#include <linux/string.h>\n"
                   "#include <linux/unaligned.h>\n\n",
    "mpa_crc.c": "#include <linux/cache.h>\n#include <linux/crc32.h>\n\n",
}

# Edits for a tree that has everything.
STANDALONE = {
    "mpa_core.c": [
        (r"\terr = mpa_compat_init\(\);\n\tif \(err\)\n\t\tgoto no_compat;\n", ""),
        (r"\tmpa_compat_exit\(\);\nno_compat:\n", ""),
        (r"\tmpa_compat_exit\(\);\n", ""),
        (r'^MODULE_SOFTDEP\("pre: crc32c"\);\n', ""),
    ],
    "mpa_ops.c": [(r" MPA_ADDR_LEN_(PARAM|ARG)\b", "")],
    "mpa_policy.c": [
        (r"a sysctl for each value; older kernels need an empty last entry",
         "a sysctl for each value"),
        (r"sysctl\[MPA_A_POLICY_MAX \+ 1\]", "sysctl[MPA_A_POLICY_MAX]"),
    ],
}


def source(name, goes, text, standalone):
    """Return a file of the module. NAME is its path here, GOES its path in the tree."""
    base = os.path.basename(name)
    text = re.sub(r'^#include "mpa_delay.h"\n', "", text, flags=re.M)
    text = re.sub(r"^\t+mpa_delay\(\w+\);\n", "", text, flags=re.M)
    if base == "mpa_core.c":
        text = edit(name, text, (r"^MODULE_VERSION\(.*\);\n", ""))
    if standalone:
        text = re.sub(r'^#include "(\.\./)?compat.h"\n', INCLUDES.get(base, ""), text,
                      flags=re.M)
        text = edit(name, text, *STANDALONE.get(base, []))
        text = re.sub(r"\bk([mz])alloc\(sizeof\((\*\w+)\), ", r"k\1alloc_obj(\2, ", text)
    if "/tests/" in goes:
        text = re.sub(r'^#include "(mpa_\w+|compat|tuf/\w+)\.h"', r'#include "../\1.h"', text,
                      flags=re.M)
    text = with_returns(text)
    # A removed include may leave two empty lines.
    return re.sub(r"\n\n\n+", "\n\n", text).rstrip("\n") + "\n"


def with_returns(text):
    """Add a "Return:" to each kernel-doc comment, as the tree requires it. Here it is
    optional if the first line has it.
    """
    def add(found):
        comment, kind, rest = found.groups()
        if "Return:" in comment or re.search(r"\bvoid $", kind):
            return found.group(0)
        said = re.search(r"\(\) - ((?:.|\n)*?)\n \*(?: @|\n|/)", comment).group(1)
        said = re.sub(r"\s*\n \*\s*", " ", said)
        if re.search(r"\bbool $", kind) and not said.startswith("whether"):
            said = "whether " + said
        lines = textwrap.wrap(f"Return: {said}.", 77)
        return comment[:-3] + "".join(f" * {line}\n" for line in [""] + lines).replace(
            " * \n", " *\n") + " */" + kind + rest

    return re.sub(r"(/\*\*\n \* \w+\(\) - (?:[^*]|\*(?!/))*\*/)(\n(?:[\w*]+[ \n])+\**)"
                  r"(\w+\()", add, text)


# ---- steps: what comes with a later patch ----

TRACE = r"trace_mpa_\w+\((?:[^;]|\n)*?\);\n"

WITHOUT = {
    "netlink": {
        "mpa_core.c": [
            (r"\terr = mpa_netlink_init\(\);\n\tif \(err\)\n\t\tgoto no_netlink;\n\n", ""),
            (r"\tmpa_netlink_exit\(\);\nno_netlink:\n", ""),
            (r"\tmpa_netlink_exit\(\);\n", ""),
        ],
        "mpa_sock.h": [(r"^/\* mpa_nl.c \*/\n(.+\n)+\n", "")],
    },
    "trace": {
        "mpa_tx_build.c": [
            (r"^\t" + TRACE, ""),
            (r"^\tu64 position = mpa_tx_position_now\(tx\);\n", ""),
        ],
        "mpa_rx_place.c": [(r"^\t" + TRACE, "")],
        "mpa_nl_report.c": [(r"^\t" + TRACE, "")],
        "mpa_rx.c": [
            (r"^\t+" + TRACE, ""),
            (r"^\tu64 position;\n(?=\tu32 have;)", ""),
            (r"^\tposition = rx->cur.pos;\n(?=\tmpa_rx_take_from)", ""),
        ],
        "mpa_start.c": [
            (r"\tif \(!err\)\n\t\t" + TRACE, ""),
            (r"^\t" + TRACE, ""),
        ],
        "mpa_tcp_watch.c": [
            (r"\tif \(unaligned \|\| watch->cut\)\n\t\t" + TRACE, ""),
        ],
    },
}


def without(part, name, text):
    """Return the file NAME as it is before the patch PART."""
    text = edit(name, text, *WITHOUT[part].get(name, []))
    if part == "trace":
        text = re.sub(r"^(#define CREATE_TRACE_POINTS\n)?#include <trace/events/mpa.h>\n", "", text, flags=re.M)
    return re.sub(r"\n\n\n+", "\n\n", text)


# ---- Makefile, Kconfig, hooks ----

def makefile(kbuild, objects, tests):
    """Return net/mpa/Makefile, with the objects that exist at this step."""
    lines = ["# SPDX-License-Identifier: GPL-2.0", "", "obj-$(CONFIG_MPA) += mpa.o", "",
             "# From the top layer down: a file calls those of its own layer and below."]
    begun, known = False, set()
    for line in kbuild.split("\n"):
        found = re.match(r"mpa-y \+?:?= (.*\.o)$", line)
        if line.startswith("ifdef"):
            break
        if found:
            here = [each for each in found.group(1).split() if each in objects]
            known.update(here)
            if here:
                lines.append(f"mpa-y {'+' if begun else ':'}= " + " ".join(here))
                begun = True
        elif begun and not line and lines[-1]:
            lines.append("")
    missing = set(objects) - known
    if missing:
        sys.exit(f"series: Kbuild does not name {' '.join(sorted(missing))}")
    while not lines[-1]:
        lines.pop()
    if tests:
        lines += ["", "# The tests of the lowest layer are a part of it.",
                  "mpa-$(CONFIG_MPA_KUNIT_TEST) += \\"]
        lines += [f"\t{each} \\" for each in tests[:-1]] + [f"\t{tests[-1]}"]
    return "\n".join(lines) + "\n"


def kconfig(text, tristate, kunit, crc32):
    """Return net/mpa/Kconfig."""
    text = edit("Kconfig", text,
                (r"^#\n# For a kernel tree,(.*\n)+?\n", "\n"))
    main, kunit_entry = re.split(r"(?=^config MPA_KUNIT_TEST)", text, flags=re.M)
    if not crc32:
        main = edit("Kconfig", main, (r"\tselect CRC32\n", "\tselect LIBCRC32C\n"))
    if not tristate:
        main = edit("Kconfig", main, (r"^\ttristate ", "\tbool "),
                    (r"\t  To compile this as a module(.*\n)+?\n", ""),
                    (r"\t  See Documentation(.*\n)+?\n", ""))
    return main + kunit_entry if kunit else main.rstrip("\n") + "\n"


# For each file, the line before which a new line goes.
HOOKS = {
    "net/Kconfig": (r'^source "net/mptcp/Kconfig"$', 'source "net/mpa/Kconfig"'),
    "net/Makefile": (r"^obj-\$\(CONFIG_MPTCP\)", "obj-$(CONFIG_MPA)\t\t+= mpa/"),
    "Documentation/networking/index.rst": (r"^   mpls-sysctl$", "   mpa/index"),
    "tools/testing/selftests/Makefile": (r"^TARGETS \+= net/mptcp$",
                                         "TARGETS += net/mpa"),
}


def hook(path, text):
    """Return a file of the tree with the new line for mpa."""
    before, line = HOOKS[path]
    return edit(path, text, (rf"({before})", line.replace("\\", r"\\") + r"\n\1"))


def maintainers(text, own):
    """Return MAINTAINERS with the entry, in alphabetical order."""
    entry = re.search(r"^[A-Z][A-Z ()]+\n(?:[A-Z]:\t.*\n)+", own, re.M).group(0)
    name = entry.split("\n", 1)[0]
    for found in re.finditer(r"^\n(.+)\n(?=[A-Z]:\t)", text, re.M):
        other = found.group(1)
        if other[:3] == name[:3] and other > name:
            at = found.start(1)
            return text[:at] + entry + "\n" + text[at:]
    return sys.exit("series: MAINTAINERS has no place for " + name)


# ---- selftests ----

MAKEFILE = """# SPDX-License-Identifier: GPL-2.0

CFLAGS += -O2 -g -Wall -Wno-unused-function
CFLAGS += -Iunit/include -I../.. $(KHDR_INCLUDES)
LDLIBS += -lpthread{mnl}

TEST_GEN_PROGS := \\
{programs}
# end of TEST_GEN_PROGS

TEST_FILES := settings

LOCAL_HDRS := \\
{headers}
# end of LOCAL_HDRS

include ../../lib.mk

$(TEST_GEN_PROGS): unit/model.c
"""


def listed(names):
    return " \\\n".join(f"\t{name}" for name in sorted(names)) + " \\"


def selftests(top, tests):
    """Return {path: text} of the programs that the file TESTS names, and of the files
    that they include."""
    here = os.path.join(top, "selftests")
    with open(tests, encoding="utf-8") as file:
        programs = [line.strip() for line in file
                    if line.strip() and not line.startswith("#")]
    files, headers = {}, {"unit/model.h"}
    left = [f"{name}.c" for name in programs]
    while left:
        name = left.pop()
        with open(*glob.glob(os.path.join(here, "*", name)), encoding="utf-8") as file:
            files[name] = file.read()
        for found in re.findall(r'^#include "(\w+\.h)"', files[name], re.M):
            # The kernel's own harness is used, not that of chosen/.
            if found not in headers | {"kselftest_harness.h"} and \
                    glob.glob(os.path.join(here, "*", found)):
                headers.add(found)
                left.append(found)
    mnl = " -lmnl" if any("libmnl" in text for text in files.values()) else ""
    texts = {SELFTESTS + name: text for name, text in files.items()}
    texts[SELFTESTS + "Makefile"] = MAKEFILE.format(
        programs=listed(programs), headers=listed(headers), mnl=mnl)
    texts[SELFTESTS + ".gitignore"] = (
        "# SPDX-License-Identifier: GPL-2.0\n" +
        "".join(f"{name}\n" for name in sorted(programs)))
    return texts


# ---- documents ----

TOCTREE = """
.. toctree::
   :maxdepth: 1

"""

DOCUMENTS = {
    "layers.svg": [(r"\s+compat.h\s+mpa_delay.h<", "<"), (r"\s+mpa_compat.c<", "<")],
    "index.rst": [
        (r"^`upstream.rst <upstream.rst>`__\n  .*\n\n", ""),
        (r"^See also:\n\n(- (.|\n)*?)(?=^A connection's life$)", ""),
    ],
    "internals.rst": [
        (r"\s+CONTRIBUTING.md says how to\s+build and test it.", ""),
        (r"^``scripts/layers.list`` assigns.*(\n.+)*\n\n", ""),
        (r"\. ``mpa_net.h``, ``mpa_pages.h``, ``compat.h``,\s+``mpa_delay.h``: for all layers",
         ". ``mpa_net.h``, ``mpa_pages.h``: for all layers"),
        (r"^``mpa_delay.c`` adds delays at marked points, in a test build.(.*\n)+?.*``make export`` strips\.\n",
         ""),
        (r"^A module can only call what TCP exports, so mpa changes(.*\n)+?\n",
         "What a module for kernels without these hooks does, and what is used here:\n\n"),
        (r"^How it is tested\n=+\n(.|\n)*?(?=^[^\n]+\n(=|-){5,}\n|\Z)",
         "How it is tested\n================\n\nKUnit tests of layer 0 are in "
         "net/mpa/tests, tests of sockets in\ntools/testing/selftests/net/mpa.\n\n"),
    ],
    "administration.rst": [
        (r"tools/net/ynl \(6.12\) or\s+tools/net/ynl/pyynl \(later\); it needs python3-yaml. "
         r"``scripts/ynl``\s+fetches it, and prints where it is. In the folder of\s+mpa's sources::",
         "tools/net/ynl/pyynl; it needs python3-yaml::"),
        (r"ynl=\$\(scripts/ynl\)/tools/net/ynl/cli.py", "ynl=tools/net/ynl/pyynl/cli.py"),
    ],
    "driver.rst": [
        (r"  # modprobe libcrc32c; insmod mpa.ko; insmod mpa_echo.ko",
         "  # modprobe mpa; insmod mpa_echo.ko"),
        (r"^insmod does not load what mpa.ko needs.*\n\n", ""),
        (r"^Build it\n-+\n(.|\n)*?(?=^A connection\n)", ""),
    ],
}


def document(name, text):
    """Return a document for Documentation/networking/mpa."""
    text = edit(name, text, *DOCUMENTS.get(name, []))
    # Turn links to files into Sphinx's links.
    text = re.sub(r"`([^`<]*?)\s*<(\w+)\.rst(?:#[\w-]*)?>`__", r":doc:`\1 <\2>`", text)
    text = re.sub(r"`([^`<]*?)\s*<\w+\.(?:c|py)>`__", r"``\1``", text)
    text = re.sub(r"`([^`<]*?)\s*<\.\./\.\./[^>]*>`__", r"\1", text)
    if name == "index.rst":
        top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        names = [os.path.basename(path)[:-4] for path in sorted(glob.glob(
            os.path.join(top, "Documentation/networking/mpa/*.rst")))]
        text = text.rstrip("\n") + "\n" + TOCTREE + "".join(
            f"   {each}\n" for each in names
            if each != "index" and each + ".rst" not in NOT_EXPORTED)
    return text.rstrip("\n") + "\n"
