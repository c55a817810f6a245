/* SPDX-License-Identifier: GPL-2.0 */
/* kselftest_harness.h, for machines that have other work to do as well. */
#ifndef _MPA_HARNESS_H
#define _MPA_HARNESS_H

#include "kselftest_harness.h"

/* Seconds that a test may take which does not say. */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	120

#endif /* _MPA_HARNESS_H */
