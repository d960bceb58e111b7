/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Creating and closing a userev. */

#include "client/library/library.h"

/* NULL stands for the userev of declared events, which is NULL until the first module is loaded. */
struct userev *open_resolve(struct userev *);
/* The userev of declared events, which is created if it does not exist. NULL: there is no memory. */
struct userev *open_declared(void);
