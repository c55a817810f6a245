// SPDX-License-Identifier: GPL-2.0
/*
 * mpa_race: two or three operations at once on the same sockets. One waits at a marked
 * point in the module (mpa_delay.h) while the others run.
 *
 *	mpa_race [OPTION]...				for the given time
 *	mpa_race "start=full; close@close.left | rmmod"...	these
 *
 * The points that an operation passes are recorded while it runs alone, so that only
 * possible delays are tried. A race fails if the kernel's checkers complain, if a call
 * takes too long, or if something is left at the end.
 */

#include <signal.h>
#include <getopt.h>
#include <sys/syscall.h>

#include "mpa.h"

#define DELAY_MS	40
#define POINTS_MAX	32
#define PARAMETER	"/sys/module/mpa/parameters/delay"

struct race {
	int start;
	int first;		/* the operation that is delayed */
	char point[20];
	int second;		/* -1: none */
	int third;
};

static struct world world;
static unsigned long seed = 1, races, limit = 1000;
static bool verbose;
static const char *module;

/* ---- loading and unloading the module ---- */

static int op_rmmod(struct world *w, long arg)
{
	int fd, err;

	(void)w;
	(void)arg;
	if (syscall(SYS_delete_module, "mpa", O_NONBLOCK))
		return -errno;
	/* A task that waits in the module's text would return to unmapped memory. */
	settle(2 * DELAY_MS);
	fd = open(module, O_RDONLY | O_CLOEXEC);
	err = syscall(SYS_finit_module, fd, "", 0) ? -errno : 0;
	close(fd);
	sysctl_put("startup_timeout_ms", STARTUP_MS);
	return err;
}

static const struct op rmmod = { "rmmod", ACTOR_ANY, 0, op_rmmod, 0 };

/* ---- points ---- */

static void delay_put(const char *text)
{
	int fd = open(PARAMETER, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		violated("%s: %s", text, strerror(errno));
	close(fd);
}

static int points_passed(char names[][20])
{
	int fd = open(PARAMETER, O_RDONLY), nr = 0;
	char text[1024] = "", *name, *rest = text;

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		text[0] = 0;
	close(fd);
	text[strcspn(text, "\n")] = 0;
	while ((name = strsep(&rest, " ")) && nr < POINTS_MAX)
		if (*name)
			snprintf(names[nr++], 20, "%s", name);
	return nr;
}

static void race_op(const struct op *op)
{
	int ret = op->fn(&world, op->arg);

	if (verbose)
		printf("  %-16s %d %s\n", op->name, ret,
		       ret < 0 ? strerror(-ret) : "");
}

/* ---- threads ---- */

struct runner {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	const struct op *op;
	bool wanted, done;
};

static struct runner runners[2];

static void *runner_main(void *arg)
{
	struct runner *runner = arg;

	pthread_mutex_lock(&runner->lock);
	for (;;) {
		while (!runner->wanted)
			pthread_cond_wait(&runner->wake, &runner->lock);
		runner->wanted = false;
		pthread_mutex_unlock(&runner->lock);
		if (op_can(&world, runner->op))
			race_op(runner->op);
		pthread_mutex_lock(&runner->lock);
		__atomic_store_n(&runner->done, true, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void runner_begin(struct runner *runner, const struct op *op)
{
	pthread_mutex_lock(&runner->lock);
	runner->op = op;
	runner->done = false;
	runner->wanted = true;
	pthread_cond_signal(&runner->wake);
	pthread_mutex_unlock(&runner->lock);
}

static bool runner_wait(struct runner *runner)
{
	int ms;

	for (ms = 1; ms < 40000; ms *= 2) {
		if (__atomic_load_n(&runner->done, __ATOMIC_ACQUIRE))
			return true;
		settle(ms);
	}
	return false;
}

/* ---- one race ---- */

static const struct op *any_op(int nr)
{
	if (nr == ops_nr)
		return &rmmod;
	return ops[nr];
}

static void say_race(const struct race *race, char *text, size_t room)
{
	int n = snprintf(text, room, "start=%s; %s@%s",
			 starts[race->start].name, any_op(race->first)->name,
			 race->point);

	if (race->second >= 0 && n < room)
		n += snprintf(text + n, room - n, " | %s",
			      any_op(race->second)->name);
	if (race->third >= 0 && n < room)
		snprintf(text + n, room - n, " | %s",
			 any_op(race->third)->name);
}

static bool runners_wait(const struct race *race)
{
	return runner_wait(&runners[0]) &&
	       (race->second < 0 || runner_wait(&runners[1]));
}

/* While calls run in parallel, the model knows nothing. */
static void race_run(const struct race *race)
{
	const struct op *first = any_op(race->first);
	char delay[40];

	violation[0] = 0;
	if (world_make(&world, starts + race->start)) {
		world_end(&world);
		violation[0] = 0;
		return;
	}
	world.racing = true;
	world.fuzzy = true;
	world.ep = -1;
	if (!op_can(&world, first))
		goto out;
	delay_put("off");
	if (race->point[0]) {
		snprintf(delay, sizeof(delay), "%s %d", race->point, DELAY_MS);
		delay_put(delay);
	}
	runner_begin(&runners[0], first);
	settle(1);
	if (race->second >= 0)
		runner_begin(&runners[1], any_op(race->second));
	if (race->third >= 0) {
		settle(DELAY_MS / 4);
		if (op_can(&world, any_op(race->third)))
			race_op(any_op(race->third));
	}
	if (!runners_wait(race)) {
		/* Another call may have set the descriptor to blocking. */
		if (world.s >= 0)
			shutdown(world.s, SHUT_RDWR);
		if (!runners_wait(race)) {
			printf("not ok 1 a call sleeps for ever\n");
			_exit(1);
		}
	}
	settle(DELAY_MS + 10);
out:
	violation[0] = 0;
	world_end(&world);
	settle(2);
}

static int race_judge(const struct race *race)
{
	char text[300], seen[200];

	say_race(race, text, sizeof(text));
	if (complained(seen, sizeof(seen)))
		violated("the kernel says %s", seen);
	if (!violation[0])
		return 0;
	printf("not ok 1 %s: %s\n", text, violation);
	return 1;
}

/* ---- choice ---- */

static u32 dice(u32 sides)
{
	seed = seed * 6364136223846793005UL + 1442695040888963407UL;
	return (seed >> 33) % sides;
}

static int random_op(const struct start *start)
{
	int nr;

	do {
		nr = dice(ops_nr + 1);
	} while (nr < ops_nr && (!op_suits(start, ops[nr]) ||
				 ops[nr]->flags & OP_ALONE));
	return nr;
}

/*
 * Run an operation with a delay at each point that it passes, and other operations
 * meanwhile.
 */
static int race_some(void)
{
	struct race race = { .start = dice(starts_nr - 1), .second = -1,
			     .third = -1 };
	const struct start *start = starts + race.start;
	char points[POINTS_MAX][20], text[300];
	int i, nr, failed = 0;

	race.first = random_op(start);
	/* Most paths end with a close. */
	if (!start->listens && !dice(4))
		race.first = op_nr("close");
	say_race(&race, text, sizeof(text));
	announce(races, text);
	race_run(&race);
	nr = points_passed(points);
	failed = race_judge(&race);
	for (i = 0; i < nr && !failed; i++) {
		strcpy(race.point, points[i]);
		race.second = random_op(start);
		race.third = dice(3) ? random_op(start) : ops_nr;
		/* After this point the module may be unloaded. */
		if (!strncmp(points[i], "close.", 6) && dice(2))
			race.third = ops_nr;
		say_race(&race, text, sizeof(text));
		races++;
		announce(races, text);
		race_run(&race);
		failed |= race_judge(&race);
	}
	return failed;
}

static int race_of(const char *text, struct race *race)
{
	char copy[300], *word, *rest = copy, *at;
	int *next = &race->first;
	int i;

	*race = (struct race){ .start = -1, .first = -1, .second = -1,
			       .third = -1 };
	snprintf(copy, sizeof(copy), "%s", text);
	while ((word = strsep(&rest, ";| "))) {
		if (!*word)
			continue;
		if (!strncmp(word, "start=", 6)) {
			for (i = 0; i < starts_nr; i++)
				if (!strcmp(starts[i].name, word + 6))
					race->start = i;
			continue;
		}
		at = strchr(word, '@');
		if (at) {
			*at = 0;
			snprintf(race->point, sizeof(race->point), "%s",
				 at + 1);
		}
		*next = strcmp(word, "rmmod") ? op_nr(word) : ops_nr;
		next = next == &race->first ? &race->second : &race->third;
	}
	return race->start < 0 || race->first < 0 ? -1 : 0;
}

static int run_given(int nr, char **texts)
{
	int i, failed = 0;
	struct race race;

	verbose = true;
	for (i = 0; i < nr; i++) {
		if (race_of(texts[i], &race)) {
			fprintf(stderr, "not a race: %s\n", texts[i]);
			return 2;
		}
		announce(races, texts[i]);
		race_run(&race);
		failed |= race_judge(&race);
	}
	if (!failed)
		printf("ok 1 nothing was found\n");
	return failed;
}

int main(int argc, char **argv)
{
	int c, i, failed = 0;
	long end = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	/* splice(2) has no MSG_NOSIGNAL. */
	signal(SIGPIPE, SIG_IGN);
	while ((c = getopt(argc, argv, "n:t:r:v")) != -1) {
		switch (c) {
		case 'n':
			limit = strtoul(optarg, NULL, 0);
			break;
		case 't':
			limit = -1UL;
			end = now_ms() + 1000 * atol(optarg);
			break;
		case 'r':
			seed = strtoul(optarg, NULL, 0);
			break;
		default:
			verbose = true;
		}
	}
	ops_collect();
	module = getenv("MPA_KO");
	if (world_begin()) {
		perror("cannot begin");
		return 2;
	}
	if (access(PARAMETER, F_OK)) {
		fprintf(stderr, "the module has no delays (MPA_DELAYS=1)\n");
		return 2;
	}
	kmsg_open();
	for (i = 0; i < ARRAY_SIZE(runners); i++) {
		pthread_mutex_init(&runners[i].lock, NULL);
		pthread_cond_init(&runners[i].wake, NULL);
		if (pthread_create(&runners[i].thread, NULL, runner_main,
				   runners + i))
			return 2;
	}
	if (optind < argc)
		return run_given(argc - optind, argv + optind);
	while (races < limit && (!end || now_ms() < end) && !failed)
		failed = race_some();
	printf("# races %lu\n", races);
	if (!failed)
		printf("ok 1 nothing was found in %lu races\n", races);
	return failed;
}
