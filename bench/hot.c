// SPDX-License-Identifier: GPL-2.0
/*
 * hot.so: a plugin of QEMU that counts where the guest executes instructions.
 * -plugin hot.so,out=FILE,none=ADDR,both=ADDR,send=ADDR,recv=ADDR
 *
 * The addresses are those of empty functions of traffic. When the guest executes one of
 * them, the account of that name begins: it counts the instructions until the next of
 * these addresses. At the end FILE gets lines "account address octets instructions",
 * one for each account and block of translated code.
 *
 * Debian does not ship QEMU's header; the prototypes are those of version 1 of the
 * interface.
 */

#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info;

enum { INLINE_ADD_U64 };
enum { CB_NO_REGS };

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb,
						 size_t idx);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id,
					   void (*cb)(plugin_id,
						      struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int op,
					      void *ptr, uint64_t imm);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
					  void (*cb)(unsigned int, void *),
					  int flags, void *data);
void qemu_plugin_register_atexit_cb(plugin_id id,
				    void (*cb)(plugin_id, void *), void *data);

#define ACCOUNTS	4
#define SLOTS		0x100000

static const char *const names[ACCOUNTS] = { "none", "both", "send", "recv" };
static uint64_t address[ACCOUNTS];

/* Consecutive instructions. If QEMU translates a block again, block_of() finds it. */
struct block {
	uint64_t at;			/* address of the first instruction */
	uint64_t insns;			/* number of instructions */
	uint64_t octets;		/* length of the code */
	uint64_t count;			/* instructions executed */
	uint64_t seen;			/* @count when the account began */
	uint64_t total[ACCOUNTS];	/* instructions executed, by account */
};

static struct block *blocks;
static struct block **used;
static size_t nr_used;
static size_t account;
static const char *out;

static struct block *block_of(uint64_t at, uint64_t insns)
{
	size_t i = (at * 0x9e3779b97f4a7c15ULL + insns) >> 44;

	while (blocks[i].insns &&
	       (blocks[i].at != at || blocks[i].insns != insns))
		i = (i + 1) % SLOTS;
	if (!blocks[i].insns) {
		if (nr_used == SLOTS / 2) {
			fprintf(stderr, "hot.so: more code than expected\n");
			exit(1);
		}
		blocks[i].at = at;
		blocks[i].insns = insns;
		used[nr_used++] = &blocks[i];
	}
	return &blocks[i];
}

static void marked(unsigned int cpu, void *data)
{
	size_t i;

	for (i = 0; i < nr_used; i++) {
		struct block *block = used[i];

		block->total[account] += block->count - block->seen;
		block->seen = block->count;
	}
	account = (size_t)data;
}

static void translated(plugin_id id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb), i;
	uint64_t at = qemu_plugin_tb_vaddr(tb);
	struct block *block = block_of(at, n);

	block->octets = 0;
	for (i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		block->octets += qemu_plugin_insn_size(insn);
	}
	qemu_plugin_register_vcpu_tb_exec_inline(tb, INLINE_ADD_U64,
						 &block->count, n);
	for (i = 0; i < ACCOUNTS; i++) {
		if (address[i] == at)
			qemu_plugin_register_vcpu_tb_exec_cb(tb, marked,
							     CB_NO_REGS,
							     (void *)i);
	}
}

static void finished(plugin_id id, void *data)
{
	FILE *file = fopen(out, "w");
	size_t i, k;

	if (!file) {
		perror(out);
		return;
	}
	marked(0, NULL);
	for (i = 0; i < nr_used; i++) {
		for (k = 0; k < ACCOUNTS; k++) {
			if (used[i]->total[k])
				fprintf(file, "%s %lx %lu %lu\n",
					names[k], used[i]->at,
					used[i]->octets, used[i]->total[k]);
		}
	}
	fclose(file);
}

__attribute__((visibility("default")))
int qemu_plugin_install(plugin_id id, const struct qemu_info *info, int argc,
			char **argv)
{
	size_t k;
	int i;

	for (i = 0; i < argc; i++) {
		char *value = strchr(argv[i], '=');

		if (!value)
			return -1;
		*value++ = '\0';
		if (!strcmp(argv[i], "out"))
			out = strdup(value);
		for (k = 0; k < ACCOUNTS; k++) {
			if (!strcmp(argv[i], names[k]))
				address[k] = strtoull(value, NULL, 16);
		}
	}
	blocks = calloc(SLOTS, sizeof(*blocks));
	used = calloc(SLOTS, sizeof(*used));
	if (!out || !blocks || !used)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, finished, NULL);
	return 0;
}
