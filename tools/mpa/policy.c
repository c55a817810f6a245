// SPDX-License-Identifier: GPL-2.0
/* "mpa policy": the administrator's settings of a network namespace. */
#include "tool.h"
#include "netlink.h"

#include <errno.h>
#include <jansson.h>
#include <linux/genetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SYSCTL_FRONT	"net.mpa."

/* Names as in Documentation/netlink/specs/mpa.yaml. */
static const struct value {
	const char *name;
	uint32_t min;
	uint32_t max;
	uint32_t usual;		/* a new namespace's value */
	const char *no;		/* meaning of 0 */
	const char *yes;	/* meaning of other values */
} values[MPA_A_POLICY_MAX + 1] = {
	[MPA_A_POLICY_CRC_OPTIONAL] = { "crc-optional", 0, 1, 0,
		"all connections use CRCs, whatever programs request",
		"connections have no CRCs if both ends request that" },
	[MPA_A_POLICY_STARTUP_TIMEOUT_MS] = { "startup-timeout-ms", 1, 3600000, 10000, NULL,
		"startup timeout in milliseconds, unless the program sets one" },
	[MPA_A_POLICY_STARTUP_MAX] = { "startup-max", 0, UINT32_MAX, 4096,
		"no responder may start",
		"responders of a port in startup; a new one above it evicts another" },
	[MPA_A_POLICY_MARKERS] = { "markers", 0, 1, 0,
		"programs decide whether to request markers",
		"all programs request markers, from their next start" },
	[MPA_A_POLICY_PLACE] = { "place", 0, 1, 1,
		"programs cannot enable MPA_PLACE; where it is enabled it stays so",
		"programs can receive records out of order (MPA_PLACE)" },
};

struct policy {
	bool json;
	int words;
	uint32_t wanted;	/* a bit for each value to print; 0: all */
	uint32_t has;
	uint32_t value[MPA_A_POLICY_MAX + 1];
};

static const struct argp_option options[] = {
	{ "json", 'j', NULL, 0, "print JSON", 0 },
	{}
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct policy *policy = state->input;

	(void)arg;
	switch (key) {
	case 'j':
		policy->json = true;
		break;
	case ARGP_KEY_ARGS:
		policy->words = state->next;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp argp = {
	options, parse, "[NAME|NAME=VALUE]...",
	"Print or set what programs may do in this network namespace. A single NAME prints only its value.\vThe names are crc-optional, startup-timeout-ms, startup-max, markers and place. See mpa-policy(1).",
	NULL, NULL, NULL,
};

/* ---- set ---- */

/* Accept the specification's names and those of sysctl. */
static unsigned int attr_named(const char *name, size_t len)
{
	const size_t front = strlen(SYSCTL_FRONT);
	unsigned int attr;

	if (len > front && !strncmp(name, SYSCTL_FRONT, front)) {
		name += front;
		len -= front;
	}
	for (attr = 1; attr <= MPA_A_POLICY_MAX; attr++) {
		const char *known = values[attr].name;
		size_t i = 0;

		while (i < len && (known[i] == name[i] || (known[i] == '-' && name[i] == '_')))
			i++;
		if (i == len && !known[len])
			return attr;
	}
	die(STATUS_USAGE,
	    "unknown name \"%.*s\": expected crc-optional, startup-timeout-ms, startup-max, markers or place",
	    (int)len, name);
}

/* Parse NAME or NAME=VALUE. The kernel checks the range. */
static void word_parse(struct policy *policy, const char *word)
{
	const char *equals = strchr(word, '=');
	unsigned long value;
	unsigned int attr;
	char *end;

	if (!equals) {
		policy->wanted |= 1U << attr_named(word, strlen(word));
		return;
	}
	attr = attr_named(word, equals - word);
	errno = 0;
	value = strtoul(equals + 1, &end, 0);
	if (errno || *end || end == equals + 1 || equals[1] == '-' || value > UINT32_MAX)
		die(STATUS_USAGE, "%s: %s takes a number from %u to %u", word,
		    values[attr].name, values[attr].min, values[attr].max);
	policy->has |= 1U << attr;
	policy->value[attr] = value;
}

/* Print the kernel's message and the allowed range. */
static void __attribute__((noreturn)) refused(const struct nl *nl)
{
	const struct nl_error *error = &nl->error;
	__u64 min, max;

	if (error->err != ERANGE || !error->attr || error->attr > MPA_A_POLICY_MAX)
		die(STATUS_LOCAL, "not set: %s", nl_why(nl));
	min = error->has_range ? error->min : values[error->attr].min;
	max = error->has_range ? error->max : values[error->attr].max;
	die(STATUS_USAGE,
	    "nothing was set: %s: %s: the range is %llu to %llu",
	    values[error->attr].name, nl_why(nl), min, max);
}

static void set(struct nl *nl, const struct policy *policy)
{
	char buf[NL_REQUEST_SIZE];
	struct nlmsghdr *nlh = nl_request(nl, buf, MPA_CMD_POLICY_SET, 0);

	for (unsigned int attr = 1; attr <= MPA_A_POLICY_MAX; attr++)
		if (policy->has >> attr & 1)
			mnl_attr_put_u32(nlh, attr, policy->value[attr]);
	if (nl_ask(nl, nlh, NULL, NULL))
		refused(nl);
}

/* ---- get ---- */

static int attr_seen(const struct nlattr *attr, void *data)
{
	const unsigned int type = mnl_attr_get_type(attr);
	struct policy *policy = data;

	if (type > MPA_A_POLICY_MAX || mnl_attr_get_payload_len(attr) != sizeof(uint32_t))
		return MNL_CB_OK;
	policy->has |= 1U << type;
	policy->value[type] = mnl_attr_get_u32(attr);
	return MNL_CB_OK;
}

static int policy_seen(const struct nlmsghdr *nlh, void *data)
{
	return mnl_attr_parse(nlh, sizeof(struct genlmsghdr), attr_seen, data);
}

static void get(struct nl *nl, struct policy *policy)
{
	char buf[NL_REQUEST_SIZE];

	policy->has = 0;
	if (nl_ask(nl, nl_request(nl, buf, MPA_CMD_POLICY_GET, 0), policy_seen, policy))
		die(STATUS_LOCAL, "the kernel did not return its policy: %s", nl_why(nl));
}

static void print_value(const struct value *value, uint32_t is)
{
	printf("%-18s  %-8u  ", value->name, is);
	if (is != value->usual)
		printf("(default: %u) ", value->usual);
	puts(is || !value->no ? value->yes : value->no);
}

static void print(const struct policy *policy)
{
	const uint32_t shown = policy->wanted ? policy->has & policy->wanted : policy->has;
	const bool one = policy->wanted && !(policy->wanted & (policy->wanted - 1));
	json_t *object = need_memory(json_object());

	for (unsigned int attr = 1; attr <= MPA_A_POLICY_MAX; attr++) {
		if (!(shown >> attr & 1))
			continue;
		json_object_set_new(object, values[attr].name,
				    json_integer(policy->value[attr]));
		if (!policy->json && one)
			printf("%u\n", policy->value[attr]);
		else if (!policy->json)
			print_value(&values[attr], policy->value[attr]);
	}
	if (policy->json) {
		json_dumpf(object, stdout, JSON_INDENT(2));
		putchar('\n');
	}
	json_decref(object);
	say_flush();
}

int policy_main(int argc, char **argv)
{
	struct policy policy = { .words = argc };
	struct nl nl;

	argp_parse(&argp, argc, argv, 0, NULL, &policy);
	for (int i = policy.words; i < argc; i++)
		word_parse(&policy, argv[i]);
	nl_open(&nl);
	if (policy.has)
		set(&nl, &policy);
	get(&nl, &policy);
	print(&policy);
	nl_close(&nl);
	return STATUS_OK;
}
