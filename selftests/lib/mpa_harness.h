/* SPDX-License-Identifier: GPL-2.0 */
/* kselftest_harness.h, for machines that do other work at the same time. */
#ifndef _MPA_HARNESS_H
#define _MPA_HARNESS_H

#include "kselftest_harness.h"

/* Default timeout of a test, in seconds. */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	120

#endif /* _MPA_HARNESS_H */
