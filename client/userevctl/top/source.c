/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <time.h>

#include "client/userevctl/ctl.h"
#include "client/userevctl/top/top.h"

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int disconnect(struct top_source *source, int error)
{
	if (error == -EREMOTEIO)
		string_copy(source->sentence, sizeof(source->sentence), source->control->sentence);
	source->control = control_free(source->control);
	source->asked = 0;
	top_look_deinit(&source->look);
	return error;
}

void top_source_deinit(struct top_source *source)
{
	disconnect(source, 0);
}

int top_source_fd(const struct top_source *source)
{
	return source->control ? source->control->fd : -1;
}

bool top_source_waits(const struct top_source *source)
{
	return source->asked != 0;
}

static int ask(struct top_source *source, uint16_t kind)
{
	int r = control_ask(source->control, kind);

	source->asked = kind;
	return r < 0 ? disconnect(source, r) : 0;
}

int top_source_ask(struct top_source *source)
{
	int r = source->control ? 0 : control_open(source->path, &source->control);

	return r < 0 ? r : ask(source, KIND_STATUS);
}

static int keep_status(struct top_look *look, struct cursor row)
{
	uint8_t *copy = malloc(row.left + 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, row.at, row.left);
	free(look->status);
	look->status = copy;
	look->status_size = row.left;
	return 0;
}

static int keep_rows(struct top_source *source, struct cursor rows)
{
	struct cursor row;
	int r = 0;

	while (r == 0 && rows_next(&rows, &row))
		r = source->asked == KIND_STATUS ? keep_status(&source->look, row)
						 : tenant_views_add(&source->look.tenants, row);
	return r;
}

static int finish(struct top_source *source, struct top_look *ret)
{
	struct top_look *look = &source->look;
	int r = 0;

	source->asked = 0;
	look->time = now_ms();
	if (ret->status) {
		look->seconds = (double)(look->time - ret->time) / 1000;
		r = tenant_views_compare(&look->tenants, &ret->tenants);
	}
	if (r < 0)
		return disconnect(source, r);
	top_look_deinit(ret);
	*ret = *look;
	*look = (struct top_look){ 0 };
	return 1;
}

int top_source_take(struct top_source *source, int timeout, struct top_look *ret)
{
	struct message message;
	struct cursor rows;
	uint16_t count;
	int r;

	r = control_receive(source->control, timeout, &message);
	if (r == -EINTR || (r == -ETIMEDOUT && timeout == 0))
		return 0;
	if (r == 0 &&
	    (message.kind != KIND_ROWS || source->asked == 0 || decode_rows(message.body, &count, &rows) != 0))
		r = -EBADMSG;
	if (r == 0)
		r = keep_rows(source, rows);
	if (r == 0 && !(message.flags & WIRE_MORE) && source->asked == KIND_STATUS)
		return source->look.status ? ask(source, KIND_TENANTS) : disconnect(source, -EBADMSG);
	if (r == 0 && !(message.flags & WIRE_MORE))
		return finish(source, ret);
	return r < 0 ? disconnect(source, r) : 0;
}
