# SPDX-License-Identifier: GPL-2.0
"""mpa_ynl.py YNL SPEC [TEST...]: tests of the netlink family "mpa" with the
kernel's own client for netlink specifications, in TAP. mpa_ynl.sh runs them."""

import signal
import sys
import traceback

from mpa_ynl_family import CLONE_NEWNET, described, tests, unshare

# Import the tests, in this order.
import mpa_ynl_conns  # noqa: F401
import mpa_ynl_policy  # noqa: F401
import mpa_ynl_events  # noqa: F401
import mpa_ynl_taps  # noqa: F401
import mpa_ynl_users  # noqa: F401
import mpa_ynl_examples  # noqa: F401


def run(function):
    """Return the failure and the reason to skip, or None."""
    # Do not wait for ever.
    signal.alarm(120)
    try:
        return None, function()
    except BaseException:
        return traceback.format_exc(), None
    finally:
        signal.alarm(0)


def late(*_):
    raise AssertionError("expected an end, seen none in 120 s")


def main():
    signal.signal(signal.SIGALRM, late)
    unshare(CLONE_NEWNET)
    described()
    failed = 0
    chosen = [function for function in tests
              if not sys.argv[3:] or function.__name__ in sys.argv[3:]]
    for n, function in enumerate(chosen, 1):
        seen, skip = run(function)
        failed += bool(seen)
        print("not ok" if seen else "ok", n, function.__name__,
              f"# SKIP {skip}" if skip else "")
        for line in (seen or "").splitlines():
            print("#", line)
        sys.stdout.flush()
    print(f"1..{len(chosen)}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
