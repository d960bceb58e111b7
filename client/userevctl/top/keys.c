/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A key of one character is that; the arrows and their like are ESC [ … or ESC O …, which may come in pieces. */

#include <ctype.h>

#include "client/userevctl/top/top.h"

static enum top_key letter(char byte)
{
	char small = (char)tolower((unsigned char)byte);

	if (small == 'q')
		return TOP_KEY_QUIT;
	if (small == '?' || small == 'h')
		return TOP_KEY_HELP;
	for (int order = 0; order < TENANT_ORDERS; order++)
		if (small == tenant_order_names[order][0])
			return (enum top_key)(TOP_KEY_ORDER + order);
	return TOP_KEY_NONE;
}

static enum top_key named_key(const char *sequence)
{
	static const struct {
		const char *sequence;
		enum top_key key;
	} keys[] = {
		{ "A", TOP_KEY_UP },   { "B", TOP_KEY_DOWN },	  { "C", TOP_KEY_RIGHT },
		{ "D", TOP_KEY_LEFT }, { "5~", TOP_KEY_PAGE_UP }, { "6~", TOP_KEY_PAGE_DOWN },
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (streq(sequence, keys[i].sequence))
			return keys[i].key;
	return TOP_KEY_NONE;
}

static bool is_final(char byte)
{
	return byte >= '@' && byte <= '~';
}

enum top_key top_keys_take(struct top_keys *keys, char byte)
{
	enum top_key key;

	if (byte == '\033' || keys->length == 0) {
		keys->sequence[0] = byte;
		keys->length = byte == '\033';
		return keys->length > 0 ? TOP_KEY_NONE : letter(byte);
	}
	if (keys->length == 1 && byte != '[' && byte != 'O') {
		/* The key Esc alone, and another. */
		keys->length = 0;
		return letter(byte);
	}
	if (keys->length < sizeof(keys->sequence) - 1)
		keys->sequence[keys->length++] = byte;
	if (keys->length <= 2 || !is_final(byte))
		return TOP_KEY_NONE;
	keys->sequence[keys->length] = '\0';
	key = named_key(keys->sequence + 2);
	keys->length = 0;
	return key;
}
