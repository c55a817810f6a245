# SPDX-License-Identifier: GPL-2.0
"""The programs of Documentation/networking/mpa/python.rst, run as the page says, for
mpa_python.sh.

A named block of Python code is a file, NAME.py. A literal block with lines "$ COMMAND"
is a session: the commands' output is compared. A command with "&" is a server: it
continues, and its output is not checked.
"""

import os
import pathlib
import re
import subprocess
import tempfile

from mpa_ends import wait_for
from mpa_python_test import MODULES, TOP, WAIT, Case

PAGE = TOP / "Documentation/networking/mpa/python.rst"


def indented(lines):
    """Return the block that begins here, without its indentation."""
    block = []
    for line in lines:
        if line and not line.startswith("  "):
            break
        block.append(line[2:])
    return block


def programs(lines):
    """Yield the name and the text of each program."""
    for n, line in enumerate(lines):
        if line == ".. code-block:: python":
            name, *text = indented(lines[n + 1:])
            found = re.fullmatch(r" *:name: ([\w-]+)", name)
            if found:
                yield found[1] + ".py", "\n".join(text).strip() + "\n"


def sessions(lines):
    """Yield the commands of each session, with their output."""
    for n, line in enumerate(lines):
        if not line.endswith("::") or line.startswith(".."):
            continue
        session = []
        for said in indented(lines[n + 1:]):
            if said.startswith("$ python3 "):
                session.append((said[2:], []))
            elif session and said:
                session[-1][1].append(said)
        if session:
            yield session


def listeners():
    """Return the number of listening sockets."""
    return sum(line.split()[3] == "0A" for version in ("tcp", "tcp6")
               for line in pathlib.Path(f"/proc/self/net/{version}").read_text("ascii")
               .splitlines()[1:])


class Page(Case):
    def test_programs_do_what_the_page_says(self):
        lines = PAGE.read_text("utf-8").splitlines()
        made, used = dict(programs(lines)), set()
        with tempfile.TemporaryDirectory() as folder:
            for name, text in made.items():
                pathlib.Path(folder, name).write_text(text, "utf-8")
            for session in sessions(lines):
                used.update(re.findall(r"[\w-]+\.py", " ".join(
                    command for command, _ in session)))
                self.run_session(folder, session)
        self.assertEqual(set(made), used, "programs that no session runs, or lacks")

    def run_session(self, folder, session):
        environment = dict(os.environ, PYTHONPATH=MODULES)
        servers = []
        try:
            for command, said in session:
                words = command.replace("python3", "/usr/bin/python3", 1).split()
                if words[-1] == "&":
                    before = listeners()
                    servers.append(subprocess.Popen(
                        words[:-1], cwd=folder, env=environment,
                        stdout=subprocess.DEVNULL))
                    wait_for(lambda: listeners() > before)
                    continue
                seen = subprocess.run(words, cwd=folder, env=environment, timeout=WAIT,
                                      text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, check=False)
                self.assertEqual("\n".join(said), seen.stdout.strip(), command)
        finally:
            for server in servers:
                server.kill()
                server.wait()
