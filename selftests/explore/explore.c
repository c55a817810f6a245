// SPDX-License-Identifier: GPL-2.0
/*
 * mpa_explore, mpa_explore_tuf: every sequence of operations up to a length,
 * from every start state, in a guest with one processor and virtual time.
 *
 *	mpa_explore [OPTION]...		explore
 *	mpa_explore "start=full; peer.rst; poll; recv"...	these sequences
 *
 * A sequence is skipped if its first part is impossible, or its first operation is
 * refused and so has no effect: a shorter sequence has the same result.
 */

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sequence.h"

#define LENGTH_MAX	8
#define FOUND_MAX	400

struct sequence {
	int start;
	int len;
	int op[LENGTH_MAX];
};

struct row {
	unsigned long of, run, steps, pruned;
};

static struct row *rows;
static int most = 3;
static unsigned long share = 1;	/* of the longest sequences, run one in this number */
static unsigned long pairs = 1;	/* of the sequences of length two, run one in this number */
static unsigned long seed = 1;
static bool verbose, all;
static bool only[64], some, first;
static unsigned long number, resume;
static unsigned long total;
static char *found[FOUND_MAX];
static int found_nr;
static char *avoid[64];
static int avoid_nr;

static void say_sequence(const struct sequence *s, char *text, size_t room)
{
	int i, n = snprintf(text, room, "start=%s", starts[s->start].name);

	for (i = 0; i < s->len && n < room; i++)
		n += snprintf(text + n, room - n, "; %s", ops[s->op[i]]->name);
}

/* Report the kernel's complaints, without numbers, which differ between runs. */
static void judge_kernel(void)
{
	char text[200], plain[200];
	int i, n = 0;

	if (!complained(text, sizeof(text)))
		return;
	for (i = 0; text[i]; i++)
		if (text[i] < '0' || text[i] > '9')
			plain[n++] = text[i];
	plain[n] = 0;
	violation[0] = 0;
	violated("the kernel says %s", plain);
}

/* The current sequence, for the report of a call that must not sleep but does. */
static char current_text[300];
static unsigned long current_nr;

static void *watch_dog(void *arg)
{
	unsigned long last = 0, nr;
	int times = 0;

	(void)arg;
	for (;;) {
		settle(10000);
		nr = __atomic_load_n(&current_nr, __ATOMIC_RELAXED);
		times = nr == last ? times + 1 : 0;
		last = nr;
		if (times < 10 || !nr)
			continue;
		printf("not ok %d %s: a call sleeps that must not\n",
		       found_nr + 1, current_text);
		_exit(1);
	}
	return NULL;
}

/* Start states, first operations and pairs of operations that are impossible. */
static bool unreached[64], dead1[64][OPS_MAX], dead2[64][OPS_MAX][OPS_MAX];

enum result { RAN, IMPOSSIBLE, INERT };

/*
 * Return: RAN; IMPOSSIBLE, with the operation in *@at; INERT if the first operation was
 * refused.
 */
static enum result run(const struct sequence *s, int *at)
{
	struct world *world = world_of();
	enum result result = RAN;
	char text[200];
	int i, ret;

	violation[0] = 0;
	if (world_make(world, starts + s->start)) {
		violated("the start state was not reached: %s",
			 strerror(errno));
		world_end(world);
		*at = -1;
		if (starts[s->start].rare)
			violation[0] = 0;
		return IMPOSSIBLE;
	}
	for (i = 0; i < s->len && !violation[0]; i++) {
		const struct op *op = ops[s->op[i]];

		if (!op_can(world, op)) {
			result = IMPOSSIBLE;
			*at = i;
			break;
		}
		ret = step(world, op);
		if (verbose) {
			world_say(world, text, sizeof(text));
			printf("  %-16s %d %s, %s %s\n", op->name, ret,
			       ret < 0 ? strerror(-ret) : "", text, violation);
		}
		rows[s->start].steps++;
		if (!i && (op->flags & OP_LOOKS ||
			   (ret < 0 && ret != -EINPROGRESS))) {
			result = INERT;
			*at = 0;
		}
	}
	if (result != IMPOSSIBLE && !violation[0])
		judge_last(world);
	world_end(world);
	judge_kernel();
	return result;
}

static bool new_finding(void)
{
	char key[300];
	int i;

	snprintf(key, sizeof(key), "%s", violation);
	for (i = 0; i < found_nr; i++)
		if (!strcmp(found[i], key))
			return false;
	if (found_nr < FOUND_MAX)
		found[found_nr++] = strdup(key);
	return true;
}

static void report(const struct sequence *s)
{
	char text[300];

	say_sequence(s, text, sizeof(text));
	if (!new_finding() && !all)
		return;
	printf("not ok %d %s: %s\n", found_nr, text, violation);
	if (first)
		exit(1);
}

static bool is_part(const char *text, const char *of)
{
	char copy[300], *word, *rest = copy;

	/* The name must have these words, in this order. */
	snprintf(copy, sizeof(copy), "%s", text);
	while ((word = strsep(&rest, "; "))) {
		size_t n = strlen(word);
		const char *at;

		if (!n)
			continue;
		for (at = of; (at = strstr(at, word)); at++)
			if (at[n] == ';' || !at[n])
				break;
		if (!at)
			return false;
		of = at + n;
	}
	return true;
}

static bool avoided(const struct sequence *s)
{
	char text[300];
	int i;

	if (!avoid_nr)
		return false;
	say_sequence(s, text, sizeof(text));
	for (i = 0; i < avoid_nr; i++)
		if (is_part(avoid[i], text))
			return true;
	return false;
}

static unsigned long hash(const struct sequence *s)
{
	unsigned long h = seed * 0x9e3779b97f4a7c15UL + s->start;
	int i;

	for (i = 0; i < s->len; i++)
		h = (h ^ s->op[i]) * 0xff51afd7ed558ccdUL, h ^= h >> 32;
	return h;
}

static bool chosen(const struct sequence *s)
{
	unsigned long of = s->len == most ? share : s->len == 2 ? pairs : 1;

	return of < 2 || !(hash(s) % of);
}

static void one(struct sequence *s)
{
	struct row *row = rows + s->start;
	char text[300];
	int at = 0;

	row->of++;
	number++;
	if (number <= resume || unreached[s->start])
		return;
	if (!chosen(s) || avoided(s))
		return;
	say_sequence(s, text, sizeof(text));
	announce(number, text);
	strcpy(current_text, text);
	__atomic_add_fetch(&current_nr, 1, __ATOMIC_RELAXED);
	row->run++;
	total++;
	if (verbose)
		printf("%s\n", text);
	switch (run(s, &at)) {
	case IMPOSSIBLE:
		if (at < 0)
			unreached[s->start] = true;
		else if (at == 0)
			dead1[s->start][s->op[0]] = true;
		else if (at == 1)
			dead2[s->start][s->op[0]][s->op[1]] = true;
		break;
	case INERT:
		if (s->len == 1)
			dead1[s->start][s->op[0]] = most > 2;
		break;
	default:
		break;
	}
	if (violation[0])
		report(s);
}

static bool in_sequences(const struct sequence *s, int nr)
{
	return op_suits(starts + s->start, ops[nr]) &&
	       (s->len == 1 || !(ops[nr]->flags & OP_ALONE));
}

/* Whether sequences that begin like this have a known result. Count them. */
static bool explored(struct sequence *s, int depth)
{
	struct row *row = rows + s->start;
	unsigned long all = 1;
	int i, nr = 0;

	if (!(depth == 1 && s->len > 1 && dead1[s->start][s->op[0]]) &&
	    !(depth == 2 && s->len > 2 &&
	      dead2[s->start][s->op[0]][s->op[1]]))
		return false;
	for (i = 0; i < ops_nr; i++)
		nr += in_sequences(s, i);
	for (i = depth; i < s->len; i++)
		all *= nr;
	row->of += all;
	row->pruned += all;
	number += all;
	return true;
}

static void explore(struct sequence *s, int depth)
{
	int i;

	if (depth == s->len) {
		one(s);
		return;
	}
	if (explored(s, depth))
		return;
	for (i = 0; i < ops_nr; i++) {
		if (!in_sequences(s, i))
			continue;
		s->op[depth] = i;
		explore(s, depth + 1);
	}
}

/* Explore from every start state, short sequences first. */
static void explore_all(void)
{
	struct sequence s;

	for (s.len = 0; s.len <= most; s.len++) {
		for (s.start = 0; s.start < starts_nr; s.start++) {
			if (some && !only[s.start])
				continue;
			explore(&s, 0);
			fprintf(stderr, "# length %d, %s: %lu run\n", s.len,
				starts[s.start].name, rows[s.start].run);
		}
	}
}

static void table(void)
{
	struct row sum = {};
	int i;

	printf("# %-14s %9s %9s %9s %9s\n", "start", "of", "pruned", "run",
	       "steps");
	for (i = 0; i < starts_nr; i++) {
		const struct row *row = rows + i;

		if (!row->of)
			continue;
		printf("# %-14s %9lu %9lu %9lu %9lu\n", starts[i].name,
		       row->of, row->pruned, row->run, row->steps);
		sum.of += row->of;
		sum.pruned += row->pruned;
		sum.run += row->run;
		sum.steps += row->steps;
	}
	printf("# %-14s %9lu %9lu %9lu %9lu\n", "all", sum.of, sum.pruned,
	       sum.run, sum.steps);
}

static int sequence_of(const char *text, struct sequence *s)
{
	char copy[300], *word, *rest = copy;
	int i;

	memset(s, 0, sizeof(*s));
	s->start = -1;
	snprintf(copy, sizeof(copy), "%s", text);
	while ((word = strsep(&rest, "; "))) {
		if (!strncmp(word, "start=", 6)) {
			for (i = 0; i < starts_nr; i++)
				if (!strcmp(starts[i].name, word + 6))
					s->start = i;
		} else if (*word && s->len < LENGTH_MAX) {
			const struct op *op = op_named(word);

			for (i = 0; i < ops_nr; i++)
				if (ops[i] == op)
					s->op[s->len] = i;
			s->len++;
		}
	}
	return s->start < 0 ? -1 : 0;
}

static int run_given(int nr, char **texts)
{
	int i, at, failed = 0;
	struct sequence s;

	verbose = true;
	for (i = 0; i < nr; i++) {
		if (sequence_of(texts[i], &s)) {
			fprintf(stderr, "no start state in: %s\n", texts[i]);
			return 2;
		}
		announce(number, texts[i]);
		snprintf(current_text, sizeof(current_text), "%s", texts[i]);
		current_nr++;
		printf("%s\n", texts[i]);
		run(&s, &at);
		printf("%s %d %s%s%s\n", violation[0] ? "not ok" : "ok", i + 1,
		       texts[i], violation[0] ? ": " : "", violation);
		failed |= !!violation[0];
	}
	return failed;
}

static void list(void)
{
	int i;

	for (i = 0; i < starts_nr; i++)
		printf("start=%s\n", starts[i].name);
	for (i = 0; i < ops_nr; i++)
		printf("%s\n", ops[i]->name);
}

static void options(int argc, char **argv)
{
	int c, i;

	while ((c = getopt(argc, argv, "l:s:p:r:o:x:c:va1L")) != -1) {
		switch (c) {
		case 'l':
			most = atoi(optarg);
			break;
		case 's':
			share = strtoul(optarg, NULL, 0);
			break;
		case 'p':
			pairs = strtoul(optarg, NULL, 0);
			break;
		case 'r':
			seed = strtoul(optarg, NULL, 0);
			break;
		case 'o':
			some = true;
			for (i = 0; i < starts_nr; i++)
				only[i] |= !strcmp(starts[i].name, optarg);
			break;
		case '1':
			first = true;
			break;
		case 'L':
			list();
			exit(0);
		case 'x':
			if (avoid_nr < ARRAY_SIZE(avoid))
				avoid[avoid_nr++] = optarg;
			break;
		case 'c':
			resume = strtoul(optarg, NULL, 0);
			break;
		case 'v':
			verbose = true;
			break;
		case 'a':
			all = true;
			break;
		default:
			fprintf(stderr, "see selftests/explore/run --help\n");
			exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	pthread_t dog;

	setvbuf(stdout, NULL, _IOLBF, 0);
	/* splice(2) has no MSG_NOSIGNAL. */
	signal(SIGPIPE, SIG_IGN);
	ops_collect();
	options(argc, argv);
	rows = calloc(starts_nr, sizeof(*rows));
	if (world_begin()) {
		perror("cannot begin");
		return 2;
	}
	kmsg_open();
	if (pthread_create(&dog, NULL, watch_dog, NULL))
		return 2;
	if (optind < argc)
		return run_given(argc - optind, argv + optind);
	explore_all();
	table();
	if (!found_nr)
		printf("ok 1 nothing was found in %lu sequences\n", total);
	return found_nr ? 1 : 0;
}
