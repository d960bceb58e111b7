/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * With Native= in the policy, containers can have the kernel's own user_events_data, and programs of kernel/guard/admission/ decide about
 * what is registered on it, while it is registered. The daemon tells them beforehand what they have to know, in memory that both have:
 * tenants (tenants.c), how many events each may have (accounts.c), and their names (names.c). Afterwards it reads what has happened.
 *
 * Nothing of that needs the daemon to be there: what the kernel knows stays, and the next daemon goes on with it.
 */

#include "daemon/native/native.h"

#include <fcntl.h>
#include <stdio.h>

#include "daemon/native/state.h"
#include "daemon/process/log.h"
#include "daemon/process/loop.h"
#include "daemon/process/timer.h"
#include "daemon/registry/refusals.h"
#include "daemon/registry/settling.h"
#include "daemon/registry/tenant.h"
#include "kernel/uapi.h"
#include "protocol/event/description.h"

/* Beyond the second for which grants linger at least; see sweep_all() in admission.bpf.c. */
#define SWEEP_INTERVAL 1.1
/* As for data files that nothing guards: see PROBE_INTERVAL. */
#define LOOK_SECONDS 10.

static void natives_stop(struct natives *natives)
{
	struct ev_loop *loop = natives->registry->loop;

	if (!natives->kernel)
		return;
	ev_io_stop(loop, &natives->w_notes);
	/* The keeper has it, too. */
	loop_forget(natives->kernel->fd[NATIVE_NOTES]);
	ev_timer_stop(loop, &natives->w_sweep);
	ev_timer_stop(loop, &natives->w_look);
	natives->file = fd_close(natives->file);
	tenants_deinit(natives);
	names_deinit(natives);
	accounts_deinit(&natives->accounts);
	natives->kernel = native_free(natives->kernel);
}

/* --- notes --- */

static const char *verdict_sentence(uint32_t verdict, uint32_t *ret_refusal)
{
	static const struct {
		uint32_t refusal;
		const char *sentence;
	} sentences[ADMISSION_VERDICTS] = {
		[ADMISSION_NAME_DENIED] = { REFUSAL_NOT_PERMITTED, "DenyEvents= has its name" },
		[ADMISSION_NAME_OWNED] = { REFUSAL_NOT_PERMITTED, "the policy keeps its name for others" },
		[ADMISSION_NAME_UNLISTED] = { REFUSAL_NOT_PERMITTED, "nothing in AllowEvents= matches its name" },
		[ADMISSION_NAME_PREFIX] = { REFUSAL_NOT_PERMITTED,
					    "NamePrefix= can't be put before the name of a native event, which has to have it" },
		[ADMISSION_NAME_BAD] = { REFUSAL_BAD_DESCRIPTION, "no event can have that name" },
		[ADMISSION_QUOTA] = { REFUSAL_QUOTA_EXCEEDED, "the tenant has no room for another event" },
		[ADMISSION_FLAGS] = { REFUSAL_NOT_PERMITTED,
				      "native events are not persistent, and of many formats only with AllowMultiFormat=yes" },
		[ADMISSION_COMMAND] = { REFUSAL_NOT_PERMITTED, "native programs can't delete events" },
		[ADMISSION_STRANGER] = { REFUSAL_NOT_PERMITTED, "its cgroup is of no tenant with Native=yes" },
		[ADMISSION_FOREIGN] = { REFUSAL_NOT_PERMITTED, "another tenant has registered on that file" },
		[ADMISSION_FULL] = { REFUSAL_TROUBLE, "the kernel's map of native events is full" },
	};

	verdict = MIN(verdict, (uint32_t)ADMISSION_VERDICTS - 1);
	*ret_refusal = sentences[verdict].refusal;
	return sentences[verdict].sentence;
}

static void on_sweep(struct ev_loop *loop, ev_timer *w, int events _unused_)
{
	struct natives *natives = container_of(w, struct natives, w_sweep);

	if (native_sweep(natives->kernel) == 0)
		ev_timer_stop(loop, w);
	accounts_update(&natives->accounts);
	tenants_share(natives);
}

static void take_note(struct natives *natives, struct admission_note *note)
{
	const struct native_tenant *native = tenants_find(natives, note->tenant);
	struct tenant *tenant = native ? native->tenant : NULL;
	uint32_t refusal;
	const char *sentence;

	/* We have looked whether we are refused. */
	if (note->pid == (uint32_t)getpid())
		return;

	note->name[strcspn(note->name, " :")] = '\0';
	switch (note->what) {
	case ADMISSION_REFUSED:
		sentence = verdict_sentence(note->verdict, &refusal);
		refusal_note(natives->registry, tenant, note->name, refusal, sentence);
		break;
	case ADMISSION_VIOLATED:
		natives->violations++;
		sentence = verdict_sentence(note->verdict, &refusal);
		log_warning("process %u (%.16s) of %s has joined the event '%s', though %s; it was %s", note->pid,
			    note->comm, native ? native->path : "an unknown tenant", note->name, sentence,
			    tenant && tenant->rules.values.value[POLICY_NATIVE_VIOLATIONS]->number ==
						    POLICY_VIOLATIONS_LOG
				    ? "let go on"
				    : "killed");
		break;
	case ADMISSION_LINGERS:
		timer_repeat(natives->registry->loop, &natives->w_sweep, on_sweep, SWEEP_INTERVAL);
		break;
	default:
		break;
	}
}

static void on_notes(struct ev_loop *loop _unused_, ev_io *w, int events _unused_)
{
	enum { AT_ONCE = 256 };
	struct natives *natives = container_of(w, struct natives, w_notes);
	struct admission_note note;

	for (unsigned i = 0; i < AT_ONCE && native_read_note(natives->kernel, &note); i++)
		take_note(natives, &note);
	accounts_update(&natives->accounts);
	tenants_share(natives);
}

/* --- the beginning --- */

/* Without native events: nobody but root can open the file, and nobody is a tenant. */
static void fail(struct natives *natives, const char *why)
{
	string_copy(natives->why, sizeof(natives->why), why);
	log_warning("Native=: no events of programs that register by themselves: %s", why);
	kernel_tell(natives->registry->kernel, (struct kernel_call){ .op = KERNEL_NATIVE_ALLOW, .index = 0, .fd = -1 });
	natives_stop(natives);
}

static void on_look(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	struct natives *natives = container_of(w, struct natives, w_look);
	TEXT(why, WIRE_SENTENCE_MAX + 1);

	if (native_look(natives, natives->file, &why) == 0)
		return;
	text_printf(
		&why,
		" Files that programs have open are not protected; 'systemctl restart userevd-keeper' loads it again");
	fail(natives, why.buffer);
}

static void begin_with(struct natives *natives, int fds[NATIVE_FILES], int file)
{
	struct registry *registry = natives->registry;
	struct admission_note note;
	TEXT(why, WIRE_SENTENCE_MAX + 1);
	int r = native_new(fds, &natives->kernel);

	if (r < 0) {
		fail(natives, strerror(-r));
		return;
	}
	ev_io_init(&natives->w_notes, on_notes, natives->kernel->fd[NATIVE_NOTES], EV_READ);
	r = native_prove(natives, file, &why);
	/* Those of the proof, and of the time before, were seen or concern nobody. */
	while (native_read_note(natives->kernel, &note))
		;
	if (r == 0)
		r = accounts_init(&natives->accounts, registry, natives->kernel->shared->nodes);
	if (r == 0)
		r = tenants_watch(natives);
	if (r < 0) {
		if (why.length == 0)
			text_printf(&why, "%s", strerror(-r));
		fail(natives, why.buffer);
		return;
	}
	ev_io_start(registry->loop, &natives->w_notes);
	timer_repeat(registry->loop, &natives->w_sweep, on_sweep, SWEEP_INTERVAL);
	timer_repeat(registry->loop, &natives->w_look, on_look, LOOK_SECONDS);
	*natives->why = '\0';
	log_notice("containers with Native=yes can register by themselves on /run/userevd/native/user_events_data");
	kernel_tell(registry->kernel, (struct kernel_call){ .op = KERNEL_NATIVE_ALLOW, .index = 1, .fd = -1 });
}

/* Behind another keeper. */
static void prove_again(struct natives *natives, int file)
{
	struct admission_note note;
	TEXT(why, WIRE_SENTENCE_MAX + 1);

	if (native_prove(natives, file, &why) < 0)
		fail(natives, why.buffer);
	else
		while (native_read_note(natives->kernel, &note))
			if (note.tenant != 0)
				take_note(natives, &note);
}

static void close_all(struct kernel_call *calls, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (calls[i].result == KERNEL_OK)
			fd_close(calls[i].fd);
}

static void on_answers(void *data, struct kernel_call *calls, size_t n)
{
	struct natives *natives = data;
	const struct kernel_call *file = &calls[ANSWER_FILE], *reason = &calls[ANSWER_REASON];
	struct kernel_call *to_look = &calls[ANSWER_FILE_TO_LOOK];
	char why[WIRE_SENTENCE_MAX + 1] = "";
	int fds[NATIVE_FILES];
	size_t opened = 0;

	natives->asking = false;
	while (opened < NATIVE_FILES && calls[opened].result == KERNEL_OK) {
		fds[opened] = calls[opened].fd;
		opened++;
	}
	if (reason->result == KERNEL_OK) {
		const ssize_t length = pread(reason->fd, why, sizeof(why) - 1, 0);

		why[MAX(length, 0)] = '\0';
	}
	/* Cancelled: the daemon ends, or the keeper has gone, and the next one is asked. */
	if (file->result == KERNEL_OK && to_look->result == KERNEL_OK && opened == NATIVE_FILES && !natives->kernel) {
		begin_with(natives, fds, file->fd);
		memset(calls, 0xff, NATIVE_FILES * sizeof(*calls)); /* it has the fds */
		/* The event of the proof ends with the other one. */
		if (natives->kernel) {
			natives->file = to_look->fd;
			to_look->fd = -1;
		}
	} else if (file->result == KERNEL_OK && opened == NATIVE_FILES) {
		prove_again(natives, file->fd);
	} else if (file->result != -ECANCELED) {
		fail(natives, *why ? why : "the keeper was started without them: systemctl restart userevd-keeper");
	}
	close_all(calls, n);
}

static void ask_keeper(struct natives *natives)
{
	natives->asking = true;
	for (size_t i = 0; i < NATIVE_CALLS; i++)
		natives->calls[i] = (struct kernel_call){ .op = KERNEL_NATIVE, .index = (uint32_t)i, .fd = -1 };
	natives->calls[ANSWER_FILE].index = natives->calls[ANSWER_FILE_TO_LOOK].index = KERNEL_NATIVE_FILE;
	natives->calls[ANSWER_REASON].index = KERNEL_NATIVE_REASON;
	kernel_submit(natives->registry->kernel, natives->calls, NATIVE_CALLS, on_answers, natives);
}

static void natives_want(struct registry *registry)
{
	struct natives *natives = registry->natives;

	if (policy_native(registry->policy) == POLICY_NATIVE_NO || registry->options->tenant_is_process)
		return;
	if (!natives) {
		natives = calloc(1, sizeof(*natives));
		if (!natives)
			return;
		natives->registry = registry;
		natives->inotify = -1;
		natives->file = -1;
		registry->natives = natives;
	}
	if (registry->kernel->facts.backend != BACKEND_ENABLE_ADDRESS)
		string_copy(natives->why, sizeof(natives->why),
			    "they want Linux 6.4 or later with user_events, and root");
	else if (!natives->asking)
		ask_keeper(natives);
}

int native_begin(struct registry *registry)
{
	natives_want(registry);
	return registry->natives ? settling_await(registry, &registry->natives->asking) : 0;
}

void native_adopt_policy(struct registry *registry)
{
	if (registry->natives && registry->natives->kernel)
		tenants_walk(registry->natives);
	else
		natives_want(registry);
}

void native_adopt_keeper(struct registry *registry)
{
	natives_want(registry);
}

void native_deinit(struct registry *registry)
{
	if (registry->natives)
		natives_stop(registry->natives);
	free(registry->natives);
	registry->natives = NULL;
}

/* --- for clients --- */

bool native_is_allowed(const struct tenant *tenant)
{
	const struct natives *natives = tenant->registry->natives;

	return natives && natives->kernel && tenant->rules.values.value[POLICY_NATIVE]->number != POLICY_NATIVE_NO;
}

int native_open_file(const struct tenant *tenant, struct text *why)
{
	const struct natives *natives = tenant->registry->natives;
	char path[64];
	int fd;

	if (tenant->rules.values.value[POLICY_NATIVE]->number == POLICY_NATIVE_NO) {
		text_printf(
			why,
			"the policy lets programs of this tenant register through the daemon alone; ask the admin for Native=yes");
		return -EPERM;
	}
	if (!natives || !natives->kernel) {
		text_printf(why, "programs can't register by themselves on this machine: %s",
			    natives && *natives->why ? natives->why : "it is not set up yet");
		return -EPERM;
	}
	/* Another open file, of the same mount. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", natives->file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0) {
		text_printf(why, "the kernel's file can't be opened: %s", strerror(errno));
		return -errno;
	}
	return fd;
}

/* --- numbers --- */

void native_state(const struct registry *registry, struct text *ret)
{
	const struct natives *natives = registry->natives;

	if (!natives)
		return;
	if (natives->kernel)
		text_printf(ret, "on");
	else
		text_printf(ret, "off: %s", natives->asking ? "the keeper is asked" : natives->why);
}

uint64_t native_violations(const struct registry *registry)
{
	return registry->natives ? registry->natives->violations : 0;
}

/* --- the list --- */

static int compare_held(const void *a, const void *b)
{
	const struct native_held *one = a, *other = b;

	return strcmp(one->text, other->text);
}

/* A description that the kernel has accepted, in our canonical form; as it is where our parser does not know one of its types. */
static char *canonical_text(const char *text, size_t *ret_name_length)
{
	static _Thread_local struct description description; /* large */
	TEXT(why, WIRE_SENTENCE_MAX + 1);

	if (description_parse(text, strlen(text), &description, &why) == 0) {
		*ret_name_length = description.name_length;
		return strdup(description.canonical);
	}
	*ret_name_length = strcspn(text, " :");
	return strdup(text);
}

static void list_add(struct native_list *list, const struct natives *natives, const struct admission_listed *listed)
{
	const struct native_tenant *native = tenants_find(natives, listed->key.tenant);
	const struct admission_grant *grant = &listed->grant;
	struct native_held *held = list->held + list->n;

	*held = (struct native_held){ .tenant = native ? native->tenant : NULL,
				      .pid = grant->pid,
				      .uid = grant->uid,
				      .lingers = grant->files == 0 };
	held->text = canonical_text(grant->text, &held->name_length);
	string_copy(held->comm, sizeof(held->comm), grant->comm);
	list->n += held->text != NULL;
}

struct native_list native_list_make(const struct registry *registry)
{
	const struct natives *natives = registry->natives;
	struct native_list list = { 0 };
	struct admission_listed *listed;
	size_t n;

	if (!natives || !natives->kernel || native_list(natives->kernel, &listed, &n) < 0)
		return list;
	list.held = calloc(n, sizeof(*list.held));
	for (size_t i = 0; list.held && i < n; i++)
		if (listed[i].key.tenant != NATIVE_PROVER)
			list_add(&list, natives, &listed[i]);
	free(listed);
	if (list.n > 0)
		qsort(list.held, list.n, sizeof(*list.held), compare_held);
	return list;
}

void native_list_free(struct native_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->held[i].text);
	free(list->held);
	*list = (struct native_list){ 0 };
}
