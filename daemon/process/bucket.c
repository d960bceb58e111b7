/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/process/bucket.h"

static double tokens_at(const struct bucket *bucket, double now)
{
	double passed = MAX(now - bucket->since, 0.);

	return MIN(bucket->tokens + passed * bucket->rate, (double)bucket->burst);
}

void bucket_init(struct bucket *bucket, uint32_t rate, uint32_t burst, double now)
{
	*bucket = (struct bucket){ .rate = rate, .burst = burst, .tokens = burst, .since = now };
}

void bucket_set(struct bucket *bucket, uint32_t rate, uint32_t burst, double now)
{
	double tokens = bucket->rate == UINT32_MAX ? burst : tokens_at(bucket, now);

	*bucket = (struct bucket){ .rate = rate, .burst = burst, .tokens = MIN(tokens, (double)burst), .since = now };
}

double bucket_wait(const struct bucket *bucket, double now)
{
	double tokens;

	if (bucket->rate == UINT32_MAX)
		return 0.;
	tokens = tokens_at(bucket, now);
	return tokens >= 1. ? 0. : (1. - tokens) / bucket->rate;
}

uint32_t bucket_tokens(const struct bucket *bucket, double now)
{
	return bucket->rate == UINT32_MAX ? UINT32_MAX : (uint32_t)tokens_at(bucket, now);
}

bool bucket_is_full(const struct bucket *bucket, double now)
{
	return bucket_tokens(bucket, now) >= bucket->burst;
}

void bucket_take(struct bucket *bucket, double now)
{
	if (bucket->rate == UINT32_MAX)
		return;
	bucket->tokens = MAX(tokens_at(bucket, now) - 1., 0.);
	bucket->since = now;
}
