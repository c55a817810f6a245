/* SPDX-License-Identifier: GPL-2.0 */
/* kselftest_harness.h with a longer timeout, for busy machines. */
#ifndef _MPA_HARNESS_H
#define _MPA_HARNESS_H

#include "kselftest_harness.h"

/* Default timeout of a test, in seconds. */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	120

#endif /* _MPA_HARNESS_H */
