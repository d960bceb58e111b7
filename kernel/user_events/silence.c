/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/user_events/silence.h"

/*
 * The bit of a silent holding stays off while the event is on: an event that is on for one tenant alone, or a muted tenant. The bit of one
 * that a tenant traces itself stays on, whether or not the event is: then the bytes behind the page say who wants its records. Such a
 * holding has no enabler, so the kernel does not know of its bit. The event itself remains on all of its streams, with the same indexes; its
 * bit and its place in an enabler process remain taken, and the process keeps the page. When the holding gets an enabler again, the kernel
 * brings the bit up to date.
 *
 * Calls that follow each other are sent together, as registrations are: a tenant that is muted, or 499 other tenants, are a handful of
 * messages.
 */

static enum bit_rule bit_rule_of(uint16_t state)
{
	return state & KERNEL_TRACES ? BIT_ON : state & KERNEL_SILENT ? BIT_OFF : BIT_FOLLOWS;
}

void silences_send(struct user_events *user_events)
{
	struct silencing *silencing = &user_events->silencing;

	if (silencing->n == 0)
		return;
	user_events->abi->silence(user_events, silencing);
	for (size_t i = 0; i < silencing->n; i++) {
		struct holding *holding = silencing->holdings[i];
		int *result = &silencing->calls[i]->result;

		/* The kernel has no such enabler: it is as it should be. */
		if (silencing->rule != BIT_FOLLOWS && *result == -ENOENT)
			*result = KERNEL_OK;
		if (*result < 0)
			holding->state = silencing->before[i];
		/* The bytes are written before a bit is kept on, and after that has ended. */
		if (*result < 0 || silencing->rule != BIT_ON)
			page_file_trace(holding->page->fd, holding->bit, holding->state);
	}
	silencing->n = 0;
}

/* Whether it can be sent together with the others. */
static bool belongs_to(const struct silencing *silencing, const struct holding *holding, enum bit_rule rule)
{
	const struct holding *first = silencing->holdings[0];

	return silencing->n < AT_ONCE && silencing->rule == rule && first->process == holding->process;
}

static int silence_queue(struct user_events *user_events, struct holding *holding, uint16_t state,
			 struct kernel_call *call)
{
	struct silencing *silencing = &user_events->silencing;
	const enum bit_rule rule = bit_rule_of(state);
	int r;

	if (silencing->n > 0 && !belongs_to(silencing, holding, rule))
		silences_send(user_events);
	r = rule == BIT_ON ? page_file_trace(holding->page->fd, holding->bit, state) : 0;
	if (r < 0)
		return r;
	if (rule == bit_rule_of(holding->state)) {
		holding->state = state;
		return KERNEL_OK;
	}
	silencing->rule = rule;
	silencing->before[silencing->n] = holding->state;
	silencing->holdings[silencing->n] = holding;
	silencing->calls[silencing->n++] = call;
	holding->state = state;
	return KERNEL_OK;
}

int silence_set(struct user_events *user_events, struct holding *holding, uint16_t state)
{
	struct kernel_call call = { .fd = -1 };

	if (holding->state == state)
		return 0;
	call.result = silence_queue(user_events, holding, state, &call);
	silences_send(user_events);
	return call.result;
}

int on_silence(struct user_events *user_events, struct kernel_call *call, const struct target *target)
{
	const uint16_t state = call->flags & KERNEL_STATES;
	struct holding *holding;

	if (!user_events->abi->silence)
		return KERNEL_E_UNSUPPORTED;
	holding = bits_owner(&target->page->bits, call->bit);
	if (!holding)
		return KERNEL_E_NO_SUCH;
	return holding->state == state ? KERNEL_OK : silence_queue(user_events, holding, state, call);
}
