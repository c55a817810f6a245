# SPDX-License-Identifier: GPL-2.0
"""placing.py IN-ORDER PLACED: summarize the two measurements."""
import sys

# A record is late if it takes this much longer than the fastest record.
LATE_MS = 2


def read(path):
    """Return [(number, milliseconds, whether it arrived out of order)]."""
    with open(path, encoding="ascii") as file:
        rows = [line.split() for line in file]
    return [(int(row[0]), float(row[2]), row[3] == "1") for row in rows]


def rank(values, share):
    """Return the quantile @share."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def sentence(name, times):
    return (f"    {name:28s} {len(times):5d} records, median "
            f"{rank(times, .5):6.1f} ms, 99 % within {rank(times, .99):6.1f} ms")


def main():
    in_order, placed = (read(path) for path in sys.argv[1:3])
    fastest = min(time for _, time, _ in in_order + placed)
    behind = {number for number, _, early in placed if early}
    if not behind:
        sys.exit("no record came out of order: nothing was lost, or not placed")
    for name, rows in ("in order", in_order), ("with MPA_PLACE", placed):
        late = sum(time > fastest + LATE_MS for _, time, _ in rows)
        print(f"  {name}: {late} of {len(rows)} records took over "
              f"{fastest + LATE_MS:.0f} ms")
        print(sentence("all", [time for _, time, _ in rows]))
        print(sentence("those after a lost record",
                       [time for number, time, _ in rows if number in behind]))


if __name__ == "__main__":
    main()
