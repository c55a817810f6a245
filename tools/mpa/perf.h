/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the files of "mpa perf": a test's parameters, the control protocol,
 * measured connections, and the counters of each end.
 */
#ifndef _MPA_PERF_H
#define _MPA_PERF_H

#include "tool.h"

#include <jansson.h>
#include <linux/mpa.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

#define NS_PER_S		1000000000ULL
#define NS_PER_MS		1000000ULL
#define NS_PER_US		1000.0

enum {
	PERF_VERSION = 1,		/* version of the control protocol */
	PERF_HELLO = 128,		/* octets in a hello, and in its answer */
	PERF_TOKEN = 16,		/* digits in a run's token */
	PERF_PATIENCE_MS = 10000,	/* timeout for the peer's next message, outside of a run */
	PERF_STUCK_S = 30,		/* timeout of a run without progress */
	PERF_CONNECTIONS_MAX = 1000,
	PERF_SIZE_MAX = 4 << 20,
	PERF_WINDOW_MAX = 1 << 30,
	PERF_CONGESTION = 16,		/* the kernel's TCP_CA_NAME_MAX */
	PERF_SECONDS_MAX = 86400,
	PERF_NOTHING = 64,		/* exit status of a session that ran no test */
	PERF_CALL = 65536,		/* octets per call of a stream with --segment */
	PERF_PATTERN = 65521,		/* octets in the pattern */
};

enum perf_test {
	PERF_STREAM,
	PERF_RATE,
	PERF_LATENCY,
};

/**
 * struct perf_params - what to measure, and how
 * @test:	 enum perf_test
 * @mpa:	 use MPA, not plain TCP
 * @to_server:	 records go to the server
 * @to_client:	 records go to the client
 * @verify:	 compare each received octet with the sent one
 * @nodelay:	 TCP_NODELAY
 * @connections: their number
 * @size:	 octets per record, or with @segment per call
 * @segment:	 for MPA_SEGMENT
 * @batch:	 records per sendmmsg(2) and recvmsg(2)
 * @octets:	 octets to send; 0: no limit
 * @seconds:	 duration; 0: no limit
 * @warmup:	 seconds before @seconds that are not measured
 * @congestion:	 name of the congestion control; empty: the system's default
 * @window:	 octets of the socket's buffers; 0: the system's default
 * @pacing:	 limit of bits per second and connection; 0: no limit
 * @start:	 how the client starts MPA; the server derives its parameters from it
 */
struct perf_params {
	int test;
	int mpa;
	int to_server;
	int to_client;
	int verify;
	int nodelay;
	unsigned int connections;
	unsigned int size;
	int segment;
	unsigned int batch;
	uint64_t octets;
	double seconds;
	double warmup;
	char congestion[PERF_CONGESTION];
	unsigned int window;
	uint64_t pacing;
	struct start_options start;
};

/* perf_params.c */
extern const char *const perf_tests[];
json_t *perf_params_pack(const struct perf_params *params);
char *perf_params_unpack(struct perf_params *params, json_t *from);
const char *perf_params_wrong(const struct perf_params *params);
enum mpa_role perf_params_role(const struct perf_params *params, bool server);
void perf_params_start(const struct perf_params *params, bool server,
		       struct start_options *start);

/* perf_control.c */
uint64_t perf_now(void);
char *perf_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
void perf_hello_make(char *hello, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
bool perf_hello_may_be(const char *hello, size_t have);
bool perf_hello_send(int fd, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
enum status perf_hello_answer(int fd, char **why);
bool perf_control_send(int fd, json_t *message);
json_t *perf_control_receive(int fd, int timeout_ms, char **why);

/* perf_histogram.c: times in nanoseconds */
struct perf_histogram;

struct perf_histogram *perf_histogram_new(void);
void perf_histogram_clear(struct perf_histogram *histogram);
void perf_histogram_add(struct perf_histogram *histogram, uint64_t value);
void perf_histogram_merge(struct perf_histogram *to, const struct perf_histogram *from);
uint64_t perf_histogram_count(const struct perf_histogram *histogram);
uint64_t perf_histogram_at(const struct perf_histogram *histogram, double percent);
uint64_t perf_histogram_least(const struct perf_histogram *histogram);
uint64_t perf_histogram_most(const struct perf_histogram *histogram);
double perf_histogram_mean(const struct perf_histogram *histogram);
double perf_histogram_deviation(const struct perf_histogram *histogram);
json_t *perf_histogram_pack(const struct perf_histogram *histogram);

/* perf_side.c: the counters of one end */
struct perf_count {
	uint64_t octets;		/* in total, with the warm-up */
	uint64_t records;
	uint64_t measured_octets;
	uint64_t measured_records;
	double seconds;			/* duration of the measured octets */
};

struct perf_side {
	struct perf_count sent;
	struct perf_count received;
	double cpu_user;
	double cpu_system;
	double cpu_seconds;		/* during the measured time */
	uint64_t tcp_retransmitted;
	uint64_t tcp_rtt_us;
	uint64_t tcp_mss;
	struct mpa_info mpa;		/* counters are sums over the connections */
	char *boot;			/* the kernel's boot_id */
	char *system;			/* uname(2) */
	char *congestion;
	uint64_t processors;
	uint64_t virtual;
};

json_t *perf_side_pack(const struct perf_side *side, bool mpa);
bool perf_side_unpack(struct perf_side *side, json_t *from);
void perf_side_machine(struct perf_side *side);

/* perf_flow.c: a measured connection */
struct perf_run;

struct perf_flow {
	struct perf_run *run;
	int fd;
	unsigned int events;		/* events for epoll */
	bool shut;			/* sending has ended */
	bool ended;			/* the peer's sending has ended */
	uint64_t tx_octets;
	uint64_t tx_limit;		/* octets that may be sent now */
	uint64_t tx_final;		/* octets to send in total */
	uint64_t tx_base;		/* MPA's counter of records at the start of the run */
	uint64_t rx_octets;
	uint64_t rx_records;
	uint64_t rx_base;		/* stream position of the first record */
	uint64_t rx_mixed;		/* sum over the records' numbers, in any order */
	uint64_t asked;			/* when the request was sent */
};

enum status perf_flow_start(struct perf_flow *flow, char **why);
enum status perf_flow_receive(struct perf_flow *flow, char **why);
enum status perf_flow_send(struct perf_flow *flow, char **why);
bool perf_flow_has_all(const struct perf_flow *flow);
uint64_t perf_flow_sent(const struct perf_flow *flow);
uint64_t perf_flow_received(const struct perf_flow *flow);

/* perf_run.c */
struct perf_sums {
	uint64_t tx_octets;
	uint64_t tx_records;
	uint64_t rx_octets;
	uint64_t rx_records;
};

struct perf_run {
	const struct perf_params *params;
	bool server;
	bool sends;
	bool asks;			/* latency test: this end sends requests */
	bool answers;
	unsigned int n;
	struct perf_flow *flow;
	int control;
	int epoll;
	char *pattern;			/* the content of all records */
	char *buf;
	size_t buf_len;
	char *cmsg;			/* buffer for control messages */
	size_t cmsg_len;
	struct perf_histogram *times;
	struct perf_histogram *interval_times;
	uint64_t begun;
	uint64_t measured_from;
	uint64_t stop_at;		/* end of the run; 0: octets are counted */
	uint64_t last_tx;
	uint64_t last_rx;
	uint64_t over;
	bool warm;			/* the warm-up is over */
	bool stopping;
	bool interrupted;
	struct perf_sums base;
	struct rusage usage_base;
	struct rusage usage;
	uint64_t progress;		/* octets at the last check */
	uint64_t progress_at;
	double interval;		/* seconds; 0: none */
	uint64_t interval_from;
	struct perf_sums interval_base;
	void (*tick)(struct perf_run *run, double from, double to,
		     const struct perf_sums *now);
	void *tick_data;
	json_t *peer;			/* the peer's results, if received */
};

extern atomic_bool perf_interrupted;	/* by a signal */

void perf_run_init(struct perf_run *run, const struct perf_params *params, bool server,
		   int control);
enum status perf_run(struct perf_run *run, char **why);
void perf_run_sums(const struct perf_run *run, struct perf_sums *sums);
void perf_run_side(const struct perf_run *run, struct perf_side *side);
void perf_run_end(struct perf_run *run);

/* perf_server.c, perf_session.c */
struct perf_server {
	struct endpoint at;
	int family;
	bool one;
	bool json;
};

int perf_server(const struct perf_server *options);
int perf_session(int control, int channel, bool json);

/* perf_client.c */
struct perf_client {
	struct endpoint to;
	struct perf_params params;
	double interval;
	unsigned int rounds;
	bool compare;
	bool json;
};

/* a run of the client, with the counters of both ends */
struct perf_round {
	const struct perf_client *client_options;
	bool mpa;
	bool interrupted;
	struct perf_side client;
	struct perf_side server;
	struct perf_histogram *times;
	json_t *intervals;
	double metric;			/* the value for --compare */
};

int perf_client(struct perf_client *client);

/* perf_report.c, perf_json.c */
void perf_report_begin(const struct perf_client *client, const char *peer);
void perf_report_interval(const struct perf_client *client, double from, double to,
			  const struct perf_sums *sums, const struct perf_histogram *times);
void perf_report_round(const struct perf_client *client, const struct perf_round *round);
void perf_report_line(const struct perf_client *client, const struct perf_round *round,
		      unsigned int number);
void perf_report_compare(const struct perf_client *client, const struct perf_round *rounds,
			 unsigned int n);
char *perf_report_rate(double octets, double seconds);

/* Median, minimum and maximum metric of the rounds with MPA, or without. */
struct perf_spread {
	double median;
	double least;
	double most;
};

void perf_spread(struct perf_spread *spread, const struct perf_round *rounds,
		 unsigned int n, bool mpa);

json_t *perf_json(const struct perf_client *client, const char *peer,
		  const struct perf_round *rounds, unsigned int n, int status);
json_t *perf_json_interval(double from, double to, const struct perf_sums *sums,
			   const struct perf_histogram *times);

#endif /* _MPA_PERF_H */
