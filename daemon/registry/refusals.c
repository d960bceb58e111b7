/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/refusals.h"

#include "daemon/limits.h"
#include "daemon/process/clock.h"
#include "daemon/registry/tenant.h"

void refusal_note(struct registry *registry, struct tenant *tenant, const char *event, uint32_t refusal,
		  const char *sentence)
{
	struct refusal_told *told = registry->refusals_told;
	/* That is no refused request: the daemon has found a registration. */
	enum log_source source = refusal == REFUSAL_SELF_REGISTERED ? LOG_OF_DAEMON : LOG_OF_CLIENTS;
	const double now = clock_now();

	if (tenant)
		tenant->refusals[refusal]++;
	if (tenant && tenant->summary)
		tenant->summary->refusals[refusal]++;
	/* Kept with the level, which outlives a tenant that comes and goes. */
	if (tenant && !tenant->level->refusals)
		tenant->level->refusals = calloc(REFUSAL_MAX_, sizeof(*told));
	if (tenant && tenant->level->refusals)
		told = tenant->level->refusals;
	told += refusal;
	/* One line for each kind, tenant and minute, with the number of those since the last line. */
	if (told->since != 0. && now - told->since < REFUSALS_INTERVAL) {
		told->more++;
		log_debug("tenant %s: %s refused (%s): %s", tenant ? tenant->path : "unknown", event ? event : "",
			  refusal_name(refusal), sentence);
		return;
	}
	log_refusal(source, tenant ? tenant->path : NULL, event, refusal_name(refusal), sentence, told->more);
	*told = (struct refusal_told){ .since = now };
}

const char *refusal_for_kernel(int answer, uint32_t *ret_refusal)
{
	static const struct {
		uint32_t refusal;
		const char *sentence;
	} answers[] = {
		[KERNEL_E_NAME_TAKEN] = { REFUSAL_NAME_TAKEN,
					  "the name is taken by an event with other fields; choose another name" },
		[KERNEL_E_PAGE_FULL] = { REFUSAL_PAGE_FULL,
					 "the tenant's status page has no bit left; release some events" },
		[KERNEL_E_FULL] = { REFUSAL_MACHINE_FULL,
				    "the kernel takes no more events; ask its admin for more room" },
		[KERNEL_E_UNSUPPORTED] = { REFUSAL_KERNEL_TOO_OLD, "this kernel can't do what the flags ask for" },
		[KERNEL_E_BAD_DESCRIPTION] = { REFUSAL_BAD_DESCRIPTION, "the kernel does not take this description" },
	};

	/* Another tenant was faster. */
	if (answer == KERNEL_E_SETTLING)
		answer = KERNEL_E_NAME_TAKEN;
	if (answer < 0 || (size_t)answer >= ARRAY_SIZE(answers))
		return NULL;
	*ret_refusal = answers[answer].refusal;
	return answers[answer].sentence;
}
