/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Seconds on CLOCK_MONOTONIC, which setting the machine's time does not change. */
double clock_now(void);
