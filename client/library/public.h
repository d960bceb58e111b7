/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Marks a function of the public API; the library is compiled with -fvisibility=hidden. */

#include "client/userev.h"
#include "protocol/base/base.h"

#define _public_ __attribute__((visibility("default")))
