/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by "mpa listen" and "mpa connect", and partly by "mpa ping": a session handles
 * one connection, from startup to close().
 */
#ifndef _MPA_RELAY_H
#define _MPA_RELAY_H

#include "tool.h"

#include <jansson.h>
#include <nettle/sha2.h>
#include <sys/types.h>
#include <time.h>

/* form of records in input and output */
enum form {
	FORM_LINES,		/* a line is a record */
	FORM_LENGTH,		/* a length of 4 octets before each */
	FORM_STREAM,		/* no boundaries: records fill segments */
};

/* session.c */
struct session_options {
	struct start_options start;
	enum form form;
	const char *send;	/* a file to send */
	const char *receive;	/* path for a received file */
	const char *exec;	/* a command that handles the records */
	unsigned int idle_ms;	/* timeout of an idle connection; 0: none */
	bool force;		/* overwrite a file */
	bool raw;		/* do not escape control characters on a terminal */
	bool json;
	bool verbose;
	bool no_shutdown;	/* do not shut down at the end of the input */
	bool end_with_peer;	/* end when the peer ends */
	bool fault;		/* mpa-conform handles the connection, with the same options */
};

struct source;

/* one connection */
struct session {
	const struct session_options *opt;
	struct source *input;	/* standard input; outlives connections */
	int fd;
	char *peer;		/* session_run() frees it */
	char *local;
	double active;		/* time when the last record was sent or received */
	bool wait_told;		/* the note that a responder waits was printed */
};

#define REVISION_UNSET	255	/* mpa_start.revision if no option set it */

extern const struct argp session_argp;	/* its child is start_argp */

void session_defaults(struct session_options *opt);
void session_open(struct session *session, struct session_options *opt, struct source *input,
		  int fd);
int session_run(struct session *session, enum mpa_role role);
void session_waits(struct session *session);
void session_active(struct session *session);
int session_left(const struct session *session);
char *session_why_idle(const struct session *session);

/* json.c */
char *event_line(const char *name, const char *peer, json_t *fields);
void event(const char *name, const char *peer, json_t *fields);
void event_started(const char *peer, int fd);
json_t *event_agreed(int fd);
void event_frame(json_t *object, const struct mpa_peer *peer);
char *event_record(const char *peer, const char *octets, size_t len,
		   const struct mpa_recvinfo *info);

/* records.c */
struct record {
	const char *octets;
	size_t len;
	size_t end;		/* start of the next record in the buffer */
};

struct source {
	int fd;
	enum form form;
	char *buf;
	size_t start;		/* start of the unsent part */
	size_t end;
	bool eof;
	char *error;		/* reason why no more records follow; NULL: none */
	unsigned long long count; /* number of records sent */
};

void source_open(struct source *from, int fd, enum form form);
void source_close(struct source *from);
void source_read(struct source *from);
bool source_has_room(const struct source *from);
size_t source_records(struct source *from, struct record *list, size_t most);
void source_sent(struct source *from, size_t end, size_t records);

struct sink {
	int fd;
	enum form form;
	char *buf;
	size_t start;
	size_t end;
	size_t room;
	size_t most;		/* largest write that does not block */
	bool shared;		/* shared with other processes: write whole lines */
	bool escape;		/* it is a terminal: escape control characters */
	bool is_socket;
	bool reopened;
	bool broken;		/* the reader has exited */
};

void sink_open(struct sink *to, int fd, enum form form);
void sink_output(struct sink *to, bool raw);
void sink_close(struct sink *to);
void sink_put(struct sink *to, const void *octets, size_t len);
void sink_record(struct sink *to, const char *octets, size_t len);
int sink_flush(struct sink *to);

/* inbound.c: several records in a call */
#define INBOUND_RECORDS	256

struct inbound {
	char *buf;
	uint32_t length[INBOUND_RECORDS];
	size_t records;
	struct mpa_recvinfo info; /* info on the first record */
	bool batch;
};

void inbound_open(struct inbound *in, int fd, bool batch);
void inbound_close(struct inbound *in);
ssize_t inbound_receive(struct inbound *in, int fd);

/* relay.c */
int relay(struct session *session);

/* transfer.c, transfer_send.c, transfer_receive.c */
void transfer_send_check(const struct session_options *opt);
int transfer_send(struct session *session);
void transfer_receive_check(const struct session_options *opt);
int transfer_receive(struct session *session);
const char *transfer_hint(const char *octets, size_t len);

/* spawn.c: the command of --exec, and cleanup at exit */
#define SHELL_SIGNALLED	128	/* added by a shell to the number of a signal */

struct child {
	pid_t pid;
	int in;			/* -1: closed */
	int out;
};

void child_start(struct child *child, const char *command, const struct session *session);
int child_end(struct child *child, bool failed);
void tidy_signals(void);
void tidy_file(const char *path);
void tidy_pid(pid_t pid, bool there);
void tidy_no_pids(void);
void tidy_ends_well(bool well);

/* progress.c */
struct progress {
	const char *what;
	uint64_t size;		/* 0: not known */
	double began;
	double shown;
	bool on;
};

double now(void);
void progress_begin(struct progress *progress, const char *what, uint64_t size);
void progress_show(struct progress *progress, uint64_t done);
void progress_end(struct progress *progress);
char *octets_text(double octets);

#endif /* _MPA_RELAY_H */
