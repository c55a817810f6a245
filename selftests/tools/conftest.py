# SPDX-License-Identifier: GPL-2.0
"""For pytest: it finds the modules that mpa_python_*.py import. In a guest that has the
module, pytest-3 selftests/tools/mpa_python_calls.py
selftests/tools/mpa_python_asyncio.py"""
import mpa_python_test  # noqa: F401
