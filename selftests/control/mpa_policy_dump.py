# SPDX-License-Identifier: GPL-2.0
"""Compare a generic netlink family in the kernel (nlctrl: getfamily, getpolicy) with
its specification: operations, required privileges, multicast groups, and each request's
attributes with types and ranges.

The kernel's tables are written by hand, and nothing else compares them."""

UINTS = {"u8": 8, "u16": 16, "u32": 32, "u64": 64}


def expected_attr(attr):
    """Return an attribute of the specification in getpolicy's form."""
    checks = attr.yaml.get("checks", {})
    if attr.type in UINTS:
        return {
            "type": attr.type,
            "min-value-u": checks.get("min", 0),
            "max-value-u": checks.get("max", 2 ** UINTS[attr.type] - 1),
        }
    if attr.type == "binary" and "exact-len" in checks:
        n = checks["exact-len"]
        return {"type": attr.type, "min-length": n, "max-length": n}
    if attr.type == "flag":
        return {"type": attr.type}
    raise NotImplementedError(f"{attr.name}: {attr.yaml}")


def expected_policy(op):
    """Return the attributes of a request, {number: attribute}. An operation written as
    struct genl_ops has one policy for "do" and "dump"."""
    names = [name for mode in ("do", "dump") if mode in op
             for name in op[mode].get("request", {}).get("attributes", [])]
    attrs = [op.attr_set[name] for name in names]
    return {attr.value: expected_attr(attr) for attr in attrs}


def expected_flags(op):
    flags = {f"cmd-cap-{mode}" for mode in ("do", "dump") if mode in op}
    if "admin-perm" in op.get("flags", []):
        # The schema of 6.12 cannot express this flag: see the specification.
        flags.add("uns-admin-perm")
    return flags


def seen_policies(nlctrl, name):
    """Return ({operation: {mode: policy's number}}, {number: {number: attribute}})."""
    # In 6.12's nlctrl.yaml the numbers of these two are swapped.
    attrs = nlctrl.attr_sets["policy-attrs"]
    attrs.attrs_by_val[11], attrs.attrs_by_val[12] = attrs["pad"], attrs["mask"]
    ops, policies = {}, {}
    for message in nlctrl.dump("getpolicy", {"family-name": name}):
        op = message.get("op-policy")
        if op:
            ops.setdefault(op.pop("op-id"), {}).update(op)
        attr = message.get("policy")
        if attr:
            attr.pop("pad", None)
            policies.setdefault(attr.pop("policy-id"), {})[attr.pop("attr-id")] = attr
    return ops, policies


def requests(family):
    return [op for op in family.ops.values() if "do" in op or "dump" in op]


def differences(family, nlctrl):
    """Return a line for each difference, and the number of attributes compared."""
    lines, compared = [], 0

    def compare(what, expected, seen):
        if expected != seen:
            lines.append(f"{what}: specification {expected}, kernel {seen}")

    name = family.yaml["name"]
    kernel = nlctrl.do("getfamily", {"family-name": name})
    compare("version", family.yaml.get("version", 1), kernel["version"])
    compare("groups", sorted(family.mcast_groups),
            sorted(group["name"] for nr in kernel.get("mcast-groups", [])
                   for group in nr.values()))
    flags = {op["id"]: op["flags"] - {"cmd-cap-haspol"}
             for nr in kernel["ops"] for op in nr.values()}
    compare("operations and their flags",
            {op.req_value: sorted(expected_flags(op)) for op in requests(family)},
            {number: sorted(seen) for number, seen in flags.items()})

    ops, policies = seen_policies(nlctrl, name)
    for op in requests(family):
        for mode in "do", "dump":
            if mode not in op or mode in op.get("dont-validate", []):
                continue
            number = ops.get(op.req_value, {}).get(mode)
            if number is None:
                lines.append(f"{op.name}, {mode}: the kernel has no policy")
                continue
            expected = expected_policy(op)
            seen = policies.get(number, {})
            for attr in sorted(expected.keys() | seen.keys()):
                compare(f"{op.name}, {mode}, attribute {attr}",
                        expected.get(attr), seen.get(attr))
            compared += len(expected)
    return lines, compared
