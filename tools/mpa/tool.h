/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the commands of mpa(1): messages, exit statuses, endpoints, and the start
 * of MPA.
 */
#ifndef _MPA_TOOL_H
#define _MPA_TOOL_H

#include <argp.h>
#include <linux/mpa.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>

/* Exit statuses, as in mpa(1). Scripts rely on them. */
enum status {
	STATUS_OK,
	STATUS_LOCAL,		/* a local error: file, memory, no module */
	STATUS_USAGE,		/* a wrong option or argument */
	STATUS_CONNECT,		/* no TCP connection */
	STATUS_REFUSED,		/* the peer uses MPA, but refused or disagrees */
	STATUS_STARTUP,		/* the peer does not use MPA, or not in time */
	STATUS_DAMAGED,		/* wrong CRC or marker, or a stream that ends inside a record */
	STATUS_LOST,		/* the connection was lost in Full Operation */
	STATUS_DIFFERS,		/* received and sent data differ */
	STATUS_IDLE,		/* no record for longer than the user allows */
};

/* SIGINT interrupted the command, which has printed its results */
#define STATUS_INTERRUPTED	130

/* a command: name, description, main() */
struct command {
	const char *name;
	const char *what;
	int (*main)(int argc, char **argv);
};

int listen_main(int argc, char **argv);
int connect_main(int argc, char **argv);
int ping_main(int argc, char **argv);
int perf_main(int argc, char **argv);
int show_main(int argc, char **argv);
int monitor_main(int argc, char **argv);
int policy_main(int argc, char **argv);

/* main.c: run the program mpa-conform, with the arguments after argv[0] */
void run_conform(const char *command, int argc, char **argv) __attribute__((noreturn));

/* say.c: colours on a terminal; "" elsewhere, or with NO_COLOR */
enum colour {
	COLOUR_NONE,		/* the default colour */
	COLOUR_BAD,
	COLOUR_ODD,
	COLOUR_GOOD,
	COLOUR_HEAD,
};

const char *colour(enum colour which);

/* Messages go to standard error, after "mpa COMMAND: ". */
extern const char *say_command;		/* prefix of messages */
extern bool say_quiet;			/* print errors only */
/* Called for an error that ends the program, after its message. */
extern void (*say_last)(enum status status, const char *text);

void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
void die(enum status status, const char *format, ...)
	__attribute__((format(printf, 2, 3), noreturn));
void *need_memory(void *memory);
void say_flush(void);			/* flush standard output */

/* printable.c: octets from a peer */
bool is_utf8(const void *octets, size_t len);
bool is_printable(const void *octets, size_t len);
char *printable_but(const void *octets, size_t len, const char *keep);
char *printable(const void *octets, size_t len);

/* endpoint.c */
struct endpoint {
	const char *host;	/* NULL: any address */
	const char *port;	/* --port may set it before the arguments are parsed */
};

#define ENDPOINT_PORT \
	{ "port", 'p', "PORT", 0, "port; the only argument is then the host", 0 }

void endpoint_parse(struct endpoint *to, const char *text);
void endpoint_parse_words(struct endpoint *to, int argc, char **argv);
void endpoint_parse_rest(struct endpoint *to, const struct argp_state *state);
int endpoint_try(const struct endpoint *to, int family, bool mpa, struct timespec *began);
int endpoint_connect(const struct endpoint *to, int family);
int endpoint_connect_mpa(const struct endpoint *to, int family, char **name);
int endpoint_listen(const struct endpoint *at, int family, int backlog);
char *endpoint_name(const struct sockaddr_storage *address);
char *endpoint_of(int fd, bool peer);

/* start.c */
struct start_options {
	struct mpa_start start;
	int role;		/* MPA_ROLE_UNSPEC: the command's default */
	bool place;
	int family;		/* AF_UNSPEC, or set by -4 and -6 */
	int segment;		/* for MPA_SEGMENT */
	bool quick;		/* TCP_NODELAY */
	const char *reject;	/* responder: reject, with this private data */
};

/* In ms */
unsigned int start_seconds(struct argp_state *state, const char *option, const char *text);
extern const struct argp start_argp;	/* a child parser: its input is start_options */

void start_defaults(struct start_options *options);
void start_attach(int fd);
bool start_attached(int fd);
void start_set(int fd, int option, int value, const char *name);
enum status start_mpa(int fd, const struct start_options *options,
		      enum mpa_role role, char **why);
bool start_peer(int fd, struct mpa_peer *peer);
void start_info(int fd, struct mpa_info *info);
const char *start_rtr(unsigned int flags);
char *start_agreed(const struct mpa_info *info);
char *start_frame(const struct mpa_peer *peer);
enum status start_error(int fd, int err, char **why);

/* Return: a frame's private data, as text if they are UTF-8, otherwise in hexadecimal. */
char *start_private(const struct mpa_peer *peer);

#endif /* _MPA_TOOL_H */
