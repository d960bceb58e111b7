/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Declared by the program, by a library that it is linked with, and by one that it loads: a single event. */

#include "client/userev.h"

USEREV_EVENT(static, shared, (u32, from));
