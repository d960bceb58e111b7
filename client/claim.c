/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * An event that is registered is a claim. Claims stand in one queue, in which they are asked for and answered; a new connection
 * begins again at the front. On the wire a claim on an event exists or not, however often a program registers it: `users`
 * counts who shares it, and the last one gives it back.
 *
 * What an event shows to who tests it is one of these:
 *	off		status leads to the event's own zeros
 *	granted		status leads to a byte of the page
 *	pending		status leads to a byte that is never 0, and mask is 0: userev_enabled() then asks userev_awaken()
 *
 * A claim that is released while it is under way stays, without its event, until it is answered. One that the daemon refuses
 * is gone with the call that made it; if that has returned, it is off, and keeps its place until the next connection.
 *
 * Everything is found by following a pointer: event → grant → claim. So n events cost n.
 */

#include "client/library.h"

/* Bit 0 of a page is nobody's: one event in eight takes this for its own, if it is made pending just between two looks. */
static const unsigned char never_off = 1;

static void grant_free_all(struct userev_grant *newest)
{
	while (newest) {
		struct userev_grant *older = newest->older;

		stream_unref(newest->stream);
		memory_free(newest);
		newest = older;
	}
}

/*
 * Others may be testing and writing meanwhile. Off comes first and on comes last; an event that stays where it was on the
 * page is never off in between. Whatever they see of it, they write through one grant or the other.
 */
static void publish(struct userev_event *event, const struct userev_grant *grant, const void *byte, unsigned char mask)
{
	intptr_t status = byte ? (intptr_t)((uintptr_t)byte - (uintptr_t)event) : 0;

	if (event->status != status || event->mask != mask)
		__atomic_store_n(&event->status, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&event->mask, mask, __ATOMIC_RELEASE);
	__atomic_store_n(&event->grant, grant, __ATOMIC_RELEASE);
	__atomic_store_n(&event->status, status, __ATOMIC_RELEASE);
}

static unsigned char mask_of(uint32_t bit)
{
	return (unsigned char)(1U << bit % 8);
}

static void publish_granted(struct claim *claim)
{
	if (claim->event)
		publish(claim->event, claim->newest, claim->userev->page + claim->bit / 8, mask_of(claim->bit));
}

/* What was granted goes on to be tested and written, until there is something better. */
static void publish_pending(struct claim *claim)
{
	const struct userev_grant *grant = claim->bit ? claim->newest : &claim->waiting;

	if (claim->event)
		publish(claim->event, grant, &never_off, 0);
}

static void publish_off(struct claim *claim)
{
	if (claim->event)
		publish(claim->event, &claim->waiting, NULL, 0);
}

bool grant_is_on(const struct userev_grant *grant)
{
	const uint8_t *page = grant->claim->userev->page;

	return grant->stream && !atomic_load_explicit(&grant->stream->ended, memory_order_relaxed) &&
	       (*(const volatile uint8_t *)(page + grant->bit / 8) & mask_of(grant->bit)) != 0;
}

int claim_new(struct userev *userev, struct userev_registration *asked)
{
	size_t length = strlen(asked->description);
	struct claim *claim = memory_new(sizeof(*claim) + length + 1);

	if (!claim)
		return -ENOMEM;
	claim->userev = userev;
	claim->event = asked->event;
	claim->waiting.claim = claim;
	claim->asked = asked;
	claim->flags = (uint16_t)asked->flags;
	claim->length = (uint16_t)length;
	memcpy(claim->description, asked->description, length + 1);
	TAILQ_INSERT_TAIL(&userev->claims, claim, entry);
	if (!userev->unanswered)
		userev->unanswered = claim;
	if (!userev->unasked)
		userev->unasked = claim;
	publish_pending(claim);
	return 0;
}

static void claim_unlink(struct claim *claim)
{
	struct userev *userev = claim->userev;
	struct claim *next = TAILQ_NEXT(claim, entry);

	if (userev->unanswered == claim)
		userev->unanswered = next;
	if (userev->unasked == claim)
		userev->unasked = next;
	if (userev->look_from == claim)
		userev->look_from = next;
	TAILQ_REMOVE(&userev->claims, claim, entry);
}

static void claim_destroy(struct claim *claim)
{
	if (claim->kept) {
		TAILQ_INSERT_TAIL(&claim->userev->kept, claim, entry);
		return;
	}
	grant_free_all(claim->newest);
	memory_free(claim->refused);
	memory_free(claim);
}

static void claim_forget_event(struct claim *claim)
{
	if (claim->event)
		publish(claim->event, NULL, NULL, 0);
	claim->event = NULL;
}

void claim_free(struct claim *claim)
{
	claim_forget_event(claim);
	claim_unlink(claim);
	claim_destroy(claim);
}

void claims_free(struct claims *claims)
{
	struct claim *claim;

	while ((claim = TAILQ_FIRST(claims))) {
		TAILQ_REMOVE(claims, claim, entry);
		claim_destroy(claim);
	}
}

/* To those of which the daemon is told. What it holds of the stream it gives up at once. */
static void claim_leave(struct claim *claim)
{
	claim_unlink(claim);
	if (!claim->kept) {
		grant_free_all(claim->newest);
		claim->newest = NULL;
	}
	TAILQ_INSERT_TAIL(&claim->userev->leaving, claim, entry);
}

void claim_release(struct claim *claim)
{
	struct userev *userev = claim->userev;

	claim_forget_event(claim);
	if (claim->under_way)
		return;
	if (userev->up && claim->bit && --userev->users[claim->bit] == 0)
		claim_leave(claim);
	else
		claim_free(claim);
}

void claim_release_and_keep(struct claim *claim)
{
	claim->kept = true;
	claim_release(claim);
}

void claims_free_kept(struct userev *userev)
{
	struct claim *claim;

	while ((claim = TAILQ_FIRST(&userev->kept))) {
		TAILQ_REMOVE(&userev->kept, claim, entry);
		claim->kept = false;
		claim_destroy(claim);
	}
}

/* The daemon gives the full name where it is not what the description begins with. */
static struct string_item name_of(const struct claim *claim, const struct answer *answer)
{
	const char *name = claim->description + strspn(claim->description, " \t");

	if (answer->length > 0)
		return (struct string_item){ .text = answer->text, .length = answer->length };
	return (struct string_item){ .text = name, .length = strcspn(name, " \t:;") };
}

static struct userev_grant *grant_new(struct claim *claim, struct stream *stream, const struct answer *answer)
{
	struct string_item name = name_of(claim, answer);
	struct userev_grant *grant = memory_new(sizeof(*grant) + name.length + 1);
	char *copy;

	if (!grant)
		return NULL;
	copy = (char *)(grant + 1);
	memcpy(copy, name.text, name.length);
	*grant = (struct userev_grant){
		.claim = claim,
		.stream = stream_ref(stream),
		.index = answer->index,
		.bit = answer->bit,
		.name = copy,
		.older = claim->newest,
	};
	return grant;
}

static int claim_granted(struct claim *claim, const struct answer *answer)
{
	struct userev *userev = claim->userev;
	struct stream *stream = streams_find(&userev->streams, answer->stream);
	struct userev_grant *grant;

	if (!stream || answer->bit == 0 || answer->bit >= userev->limits.page_bits)
		return -EPROTO;
	grant = grant_new(claim, stream, answer);
	if (!grant)
		return -ENOMEM;
	claim->newest = grant;
	claim->bit = answer->bit;
	userev->users[claim->bit]++;
	/* Released meanwhile. */
	if (!claim->event)
		claim_release(claim);
	else
		publish_granted(claim);
	return 0;
}

static void claim_keep_refused(struct claim *claim, const char *text, size_t length)
{
	memory_free(claim->refused);
	claim->refused = sentence_new(text, length);
	publish_off(claim);
}

static void tell_who_asked(struct claim *claim, int error, const char *text, size_t length)
{
	struct sentence *sentence = sentence_new(text, length);

	claim->asked->result = error;
	claim->asked->why = sentence ? sentence->text : "refused, and there is no memory to say why";
	if (sentence)
		SLIST_INSERT_HEAD(&claim->userev->sentences, sentence, entry);
}

static void claim_refused(struct claim *claim, const struct answer *answer)
{
	const char *name = refusal_name(answer->refusal);
	const char *text = answer->length > 0 ? answer->text : name;
	size_t length = answer->length > 0 ? answer->length : strlen(name);

	explain(claim->userev, "refused: %s: %.*s", claim->description, (int)length, text);
	refusal_set(text, length);
	if (claim->asked)
		tell_who_asked(claim, refusal_to_errno(answer->refusal), text, length);
	if (claim->asked || !claim->event)
		claim_free(claim);
	else
		claim_keep_refused(claim, text, length);
}

int claim_answered(struct claim *claim, const struct answer *answer)
{
	claim->under_way = false;
	if (answer->refusal == REFUSAL_NONE)
		return claim_granted(claim, answer);
	claim_refused(claim, answer);
	return 0;
}

void claims_suspend(struct userev *userev)
{
	struct claim *claim, *next;

	for (claim = TAILQ_FIRST(&userev->claims); claim; claim = next) {
		next = TAILQ_NEXT(claim, entry);
		claim->under_way = false;
		if (claim->event)
			publish_pending(claim);
		else
			claim_free(claim);
	}
}

void claims_resume(struct userev *userev)
{
	struct claim *claim;

	for (claim = TAILQ_FIRST(&userev->claims); claim; claim = TAILQ_NEXT(claim, entry)) {
		if (claim->bit)
			publish_granted(claim);
		else
			publish_off(claim);
	}
}

void claims_ask_anew(struct userev *userev)
{
	userev->unanswered = userev->unasked = TAILQ_FIRST(&userev->claims);
}

void claims_wait(struct userev *userev)
{
	struct claim *claim;

	for (claim = TAILQ_FIRST(&userev->claims); claim; claim = TAILQ_NEXT(claim, entry)) {
		claim->bit = 0;
		publish_pending(claim);
	}
	changes_look_again(userev);
}
