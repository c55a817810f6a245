// SPDX-License-Identifier: GPL-2.0
/*
 * socket RUNS SEED CORPUS NEW [FILE...]: fuzz one end of a connection, with a simulated
 * peer at the other (execution.c), RUNS times; if RUNS is 0, until the file NEW/stop
 * exists.
 *
 * Inputs that reach new code of the module (KCOV), or end in a new way, are stored in
 * NEW. They and the inputs in CORPUS are changed again and again. With FILEs only these
 * are run. SEED and the number of an execution identify its input.
 */

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "socket.h"

#define INPUTS_MAX	4096
#define PCS		(64 << 10)

static struct input inputs[INPUTS_MAX];
static u32 inputs_nr;

/* ---- what has been reached ---- */

#define KCOV_INIT_TRACE	_IOR('c', 1, unsigned long)
#define KCOV_ENABLE	_IO('c', 100)

static unsigned long *kcov;
static unsigned long reached[PCS], ended[PCS];
static unsigned int pcs, endings;
static bool something_new;

static void kcov_open(void)
{
	int fd = open("/sys/kernel/debug/kcov", O_RDWR);

	if (fd < 0 || ioctl(fd, KCOV_INIT_TRACE, PCS))
		return;
	kcov = mmap(NULL, PCS * sizeof(*kcov), PROT_READ | PROT_WRITE,
		    MAP_SHARED, fd, 0);
	if (kcov == MAP_FAILED || ioctl(fd, KCOV_ENABLE, 0))
		kcov = NULL;
}

/* Add a number above 0 to a set. Return: whether it is new. */
static bool first_time(unsigned long *set, unsigned long value)
{
	u32 at = value * 2654435761UL >> 8;
	u32 i;

	for (i = 0; i < PCS; i++) {
		unsigned long *slot = set + (at + i) % PCS;

		if (*slot == value)
			return false;
		if (!*slot) {
			*slot = value;
			return true;
		}
	}
	return false;
}

static void kcov_collect(void)
{
	unsigned long i, n;

	if (!kcov)
		return;
	n = __atomic_load_n(kcov, __ATOMIC_RELAXED);
	for (i = 1; i <= n && i < PCS; i++) {
		if (first_time(reached, kcov[i])) {
			pcs++;
			something_new = true;
		}
	}
}

void ended_as(unsigned long how)
{
	if (first_time(ended, how)) {
		endings++;
		something_new = true;
	}
}

/* ---- inputs ---- */

static u64 seed;

static u32 dice(u32 sides)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 33) % sides;
}

static void change(struct input *input)
{
	u32 times = 1 + dice(6), at, n;

	while (times--) {
		const struct input *other = inputs + dice(inputs_nr);

		at = input->len ? dice(input->len) : 0;
		switch (dice(6)) {
		case 0:
			input->octets[at] ^= 1 << dice(8);
			break;
		case 1:
			input->octets[at] = dice(256);
			break;
		case 2:
			/* Usually change a few octets. */
			n = 1 + dice(6);
			if (input->len + n > INPUT_MAX)
				break;
			memmove(input->octets + at + n, input->octets + at,
				input->len - at);
			input->len += n;
			while (n--)
				input->octets[at + n] = dice(256);
			break;
		case 3:
			n = dice(input->len - at + 1);
			memmove(input->octets + at, input->octets + at + n,
				input->len - at - n);
			input->len -= n;
			break;
		case 4:
			n = dice(INPUT_MAX - at + 1);
			if (at + n > other->len)
				n = other->len > at ? other->len - at : 0;
			memcpy(input->octets + at, other->octets + at, n);
			if (at + n > input->len)
				input->len = at + n;
			break;
		default:
			n = dice(16);
			while (n-- && input->len < INPUT_MAX)
				input->octets[input->len++] = dice(256);
		}
	}
}

static int input_read(const char *path, struct input *input)
{
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, input->octets, INPUT_MAX);

	if (n >= 0)
		input->len = n;
	close(fd);
	return n < 0 ? -1 : 0;
}

static void input_write(const char *dir, const char *name, u32 nr,
			const struct input *input)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s%u", dir, name, nr);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (fd < 0 || write(fd, input->octets, input->len) != input->len)
		perror(path);
	close(fd);
}

static void corpus_read(const char *dir)
{
	struct dirent **names;
	int i, n = scandir(dir, &names, NULL, alphasort);
	char path[4096];

	for (i = 0; i < n && inputs_nr < INPUTS_MAX / 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
		if (names[i]->d_name[0] != '.' &&
		    !input_read(path, inputs + inputs_nr))
			inputs_nr++;
	}
}

static int report(const struct input *input, const char *what,
		  unsigned long nr, const char *dir)
{
	u32 i;

	printf("execution %lu: %s\n", nr, what);
	for (i = 0; i < input->len; i++)
		printf("%02x%s", input->octets[i],
		       i % 32 == 31 || i + 1 == input->len ? "\n" : "");
	if (dir)
		input_write(dir, "violation-", nr, input);
	return 1;
}

static const char *execute_watched(const struct input *input)
{
	const char *what;

	something_new = false;
	if (kcov)
		__atomic_store_n(kcov, 0, __ATOMIC_RELAXED);
	what = execute(input);
	kcov_collect();
	return what;
}

static FILE *file_in(const char *dir, const char *name)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "w");
	if (!file)
		perror(path);
	return file;
}

static bool file_exists(const char *dir, const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return !access(path, F_OK);
}

/* Write the progress, for a process outside the guest. */
static void result_write(const char *dir, unsigned long nr)
{
	FILE *file = file_in(dir, "result");

	if (!file)
		return;
	fprintf(file, "executions=%lu\nfull_operation=%lu\nrecords=%lu\n", nr,
		fulls, records);
	fprintf(file, "places=%u\nendings=%u\ninputs=%u\n", pcs, endings,
		inputs_nr);
	fclose(file);
}

static int run_files(int nr, char **files)
{
	struct input input;
	const char *what;
	int i;

	for (i = 0; i < nr; i++) {
		if (input_read(files[i], &input)) {
			perror(files[i]);
			return 2;
		}
		what = execute_watched(&input);
		if (what)
			return report(&input, what, i + 1, NULL);
	}
	return 0;
}

/*
 * Run the corpus first, then changes of promising inputs. With MPA_FUZZ_CURRENT store
 * each input in NEW/current0 before it runs, in case the kernel hangs.
 */
static int fuzz(unsigned long runs, const char *dir)
{
	bool watched = getenv("MPA_FUZZ_CURRENT");
	unsigned long nr, corpus_nr = inputs_nr;
	struct input input;

	for (nr = 0; !runs || nr < runs; nr++) {
		const char *what;

		if (nr % 64 == 0) {
			result_write(dir, nr);
			if (file_exists(dir, "stop"))
				break;
		}

		if (nr < corpus_nr) {
			input = inputs[nr];
		} else {
			input = inputs[dice(inputs_nr)];
			change(&input);
		}
		if (watched)
			input_write(dir, "current", 0, &input);
		what = execute_watched(&input);
		if (what)
			return report(&input, what, nr, dir);
		if (something_new && nr >= corpus_nr &&
		    inputs_nr < INPUTS_MAX) {
			inputs[inputs_nr++] = input;
			input_write(dir, "", nr, &input);
		}
	}
	result_write(dir, nr);
	return 0;
}

int main(int argc, char **argv)
{
	FILE *began;

	if (argc < 5) {
		fprintf(stderr, "usage: %s RUNS SEED CORPUS NEW [FILE...]\n",
			argv[0]);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	kcov_open();
	if (execute_begin())
		return 2;
	if (argc > 5)
		return run_files(argc - 5, argv + 5);

	seed = strtoull(argv[2], NULL, 0);
	corpus_read(argv[3]);
	if (!inputs_nr)
		inputs_nr = 1;
	began = file_in(argv[4], "began");
	if (!began)
		return 2;
	fclose(began);
	return fuzz(strtoul(argv[1], NULL, 0), argv[4]);
}
