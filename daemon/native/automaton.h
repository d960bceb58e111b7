/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A policy's rules about names as an automaton, which the kernel can follow: see struct admission_state. Pure but for memory. */

#include "daemon/policy/policy.h"
#include "kernel/guard/admission.h"

/*
 * Makes the states of these rules (of policy_resolve()) in `ret`, which has room for `most`; their numbers begin at `first`, which is
 * where a name begins. Returns how many there are; -E2BIG: more than `most`; or -ENOMEM.
 */
int automaton_make(const struct policy_rules *, uint16_t first, struct admission_state *ret, size_t most);
/* State 0 of all of them, and the classes of characters. */
void automaton_begin(unsigned char classes[256], struct admission_state *ret);
