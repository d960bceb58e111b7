/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Declared by the program, by the library that it is linked with and by the one that it loads: one event all the same. */

#include "client/userev.h"

USEREV_EVENT(static, shared, (u32, from));
