# SPDX-License-Identifier: GPL-2.0
"""mpa_python.py [NAME...]: tests of python/, in TAP. mpa_python.sh runs them."""

import sys

import mpa_python_test

import mpa_python_calls
import mpa_python_asyncio
import mpa_python_pages

if __name__ == "__main__":
    sys.exit(mpa_python_test.run(
        [mpa_python_calls, mpa_python_asyncio, mpa_python_pages], sys.argv[1:]))
