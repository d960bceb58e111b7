/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/user_events/silence.h"

/*
 * The bit of a silent holding stays off while the event is on: an event that is on for one tenant alone, or a muted tenant. Such a holding
 * has no enabler, so the kernel does not know of its bit. The event itself remains on all of its streams, with the same indexes; its bit and
 * its place in an enabler process remain taken, and the process keeps the page. When the holding gets an enabler again, the kernel brings
 * the bit up to date.
 *
 * Calls that follow each other are sent together, as registrations are: a tenant that is muted, or 499 other tenants, are a handful of
 * messages.
 */

void silences_send(struct user_events *user_events)
{
	struct silencing *silencing = &user_events->silencing;

	if (silencing->n == 0)
		return;
	user_events->abi->silence(user_events, silencing);
	for (size_t i = 0; i < silencing->n; i++) {
		int *result = &silencing->calls[i]->result;

		/* The kernel has no such enabler: it is as it should be. */
		if (silencing->silent && *result == -ENOENT)
			*result = KERNEL_OK;
		if (*result < 0)
			silencing->holdings[i]->silent = !silencing->silent;
	}
	silencing->n = 0;
}

/* Whether it can be sent together with the others. */
static bool belongs_to(const struct silencing *silencing, const struct holding *holding, bool silent)
{
	const struct holding *first = silencing->holdings[0];

	return silencing->n < AT_ONCE && silencing->silent == silent && first->process == holding->process;
}

static void silence_queue(struct user_events *user_events, struct holding *holding, bool silent,
			  struct kernel_call *call)
{
	struct silencing *silencing = &user_events->silencing;

	if (silencing->n > 0 && !belongs_to(silencing, holding, silent))
		silences_send(user_events);
	silencing->silent = silent;
	silencing->holdings[silencing->n] = holding;
	silencing->calls[silencing->n++] = call;
	holding->silent = silent;
}

int silence_set(struct user_events *user_events, struct holding *holding, bool silent)
{
	struct kernel_call call = { .fd = -1 };

	if (holding->silent == silent)
		return 0;
	silence_queue(user_events, holding, silent, &call);
	silences_send(user_events);
	return call.result;
}

int on_silence(struct user_events *user_events, struct kernel_call *call, const struct target *target)
{
	const bool silent = call->flags & KERNEL_SILENT;
	struct holding *holding;

	if (!user_events->abi->silence)
		return KERNEL_E_UNSUPPORTED;
	holding = bits_owner(&target->page->bits, call->bit);
	if (!holding)
		return KERNEL_E_NO_SUCH;
	if (holding->silent != silent)
		silence_queue(user_events, holding, silent, call);
	return KERNEL_OK;
}
