/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Declared events, by modules: programs and shared libraries. */

struct userev;

/* NULL stands for the userev of declared events, which may be NULL, too. */
struct userev *module_resolve(struct userev *);
