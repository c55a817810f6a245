# SPDX-License-Identifier: GPL-2.0
"""What mpa_exact.sh runs, with the words that a case's name has to have."""

import sys

import ends
import script
import segments
import startup

if __name__ == "__main__":
    sys.exit(script.run((startup, segments, ends), sys.argv[1:]))
