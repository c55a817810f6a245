// SPDX-License-Identifier: GPL-2.0
/* Where the tracepoints are: include/trace/events/mpa.h. */

#include <linux/net.h>
#include <net/sock.h>

#define CREATE_TRACE_POINTS
#include <trace/events/mpa.h>
