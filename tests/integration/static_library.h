/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>

__attribute__((visibility("default"))) bool library_is_on(void);
__attribute__((visibility("default"))) void library_emit(uint32_t n);
