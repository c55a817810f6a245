# SPDX-License-Identifier: GPL-2.0
"""The counts of hot.so, by function and by the purpose of functions."""

import bisect
import re
import subprocess

# By module, otherwise the first pattern that matches.
MODULES = {
    "mpa": "framing (mpa)",
    "tls": "tls", "sctp": "sctp", "siw": "siw",
    "crc32c_intel": "CRC", "libcrc32c": "CRC",
    "aesni_intel": "encryption", "crypto_simd": "encryption",
    "ghash_clmulni_intel": "encryption",
    "user": "the program itself",
}
GROUPS = [
    ("FPU state, which CRC and encryption use",
     r"fpu|fpregs|xfd_|xsave|fpstate"),
    ("CRC", r"crc32|crypto_shash|shash_|chksum"),
    ("encryption", r"crypto|aead|scatterwalk|^aes|gcm|^sg_"),
    ("copies from and to the user", r"copy_user_generic|rep_movs|^memcpy"),
    ("checks and wrappers of user copies",
     r"_copy_(from|to)_(user|iter)|copy(in|out)|copy_page_(from|to)|iov_iter"
     r"|check_object|check_heap|check_stack|check_page_span|is_vmalloc"
     r"|virt_addr|skb_copy_datagram|simple_copy|__phys_addr|access_ok"),
    ("pages: allocating, zeroing, freeing",
     r"clear_page|alloc_pages|free_pages|get_page|page_frag|rmqueue|memset"
     r"|free_unref|put_page|prep_new_page|free_pcp|__free_page|page_alloc"
     r"|kernel_init_pages|folio|zone_|post_alloc|page_ref|memcg|mod_node"
     r"|mod_zone|alloc_page|free_compound|destroy_large|_pages_|prep_comp"),
    ("allocator",
     r"kmalloc|kfree|kmem_cache|slab|alloc_skb|skb_release|build_skb"
     r"|consume_skb|skb_free|ksize"),
    ("scheduler",
     r"sched|pick_next|queue_task|queue_entity|update_(curr|load|rq|cfs)"
     r"|try_to_wake|wake_up|wake_func|autoremove_wake|prepare_to_wait|wait_woken"
     r"|finish_(wait|task)|switch|select_task|set_next|put_prev|preempt"
     r"|psi_|resched|place_entity|calc_delta|reweight|idle|nohz|vruntime"
     r"|ttwu|hrtimer|tick_|ktime|timer|clock|read_tsc|rcu_|sysvec|irqentry"
     r"|wait_entry|add_wait|remove_wait|cpuacct|cputime|perf_"),
    ("system calls",
     r"entry_|syscall|x64_sys|exit_to_user|fget|fdget|fput|ksys|vfs_|rw_verify"
     r"|sockfd_|__sys_|import_|move_addr|fsnotify|security_|apparmor|aa_"
     r"|audit|sysret"),
    ("TCP, IP, devices, softirq",
     r"tcp|ip_|ipv4|inet|skb|sk_|sock_|release_sock|lock_sock|veth|dev_|netif"
     r"|napi|net_rx|__qdisc|nf_|neigh|dst_|fib_|loopback|eth_|bpf|xmit|udp"
     r"|gso|gro|validate_|bictcp|cubic|__ip|sendmsg|recvmsg|softirq|dql"
     r"|process_backlog"),
    ("locks, switching interrupts",
     r"lock|bh_(en|dis)able|mutex|atomic|refcount|irq"),
]

REST = "the rest of the kernel"


def load_kernel(path):
    rows = []
    with open(path) as file:
        for line in file:
            word = line.split()
            if word[1] not in "tTwW":
                continue
            module = word[3].strip("[]") if len(word) > 3 else ""
            rows.append((int(word[0], 16), word[2], module))
    return rows


def load_program(path):
    rows = []
    text = subprocess.run(["nm", "-n", path], capture_output=True, text=True,
                          check=True).stdout
    for line in text.splitlines():
        word = line.split()
        if len(word) == 3 and word[1] in "tTwWiV":
            rows.append((int(word[0], 16), word[2], "user"))
    return rows


class Symbols:
    def __init__(self, kallsyms, program):
        self.rows = sorted(load_kernel(kallsyms) + load_program(program))
        self.at = [row[0] for row in self.rows]
        self.last_user = max(row[0] for row in self.rows if row[2] == "user")

    def find(self, address):
        """Name and module of the function that an address is in."""
        if self.last_user + 65536 < address < 1 << 63:
            return "(clock_gettime in the vDSO, and the like)", "user"
        i = bisect.bisect_right(self.at, address) - 1
        if i < 0:
            return "?", "user"
        name, module = self.rows[i][1:]
        # Its assembly has a label for each entry into the unrolled loop.
        if module == "crc32c_intel" and "crc32c" not in name:
            name = "crc_pcl"
        return name, module


def group(name, module):
    if module == "mpa" and name.startswith("mpa_crc"):
        return "CRC"
    if module in MODULES:
        return MODULES[module]
    for title, pattern in GROUPS:
        if re.search(pattern, name):
            return title
    return REST


def profile(counts, symbols):
    """{account: {(function, module): instructions}}"""
    seen = {}
    with open(counts) as file:
        for line in file:
            account, address, _, instructions = line.split()
            key = symbols.find(int(address, 16))
            here = seen.setdefault(account, {})
            here[key] = here.get(key, 0) + int(instructions)
    return seen


def groups(functions):
    total = {}
    for (name, module), n in functions.items():
        title = group(name, module)
        total[title] = total.get(title, 0) + n
    return total
