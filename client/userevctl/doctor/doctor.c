/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * doctor: why do events not work here? Each cause is checked by itself, in the order in which a program would meet it, and has
 * a sentence of its own. doctor registers an event of its own and writes one record; it changes nothing else.
 */

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>

#include "client/userevctl/doctor/doctor.h"
#include "daemon/policy/policy.h"
#include "kernel/probe.h"
#include "protocol/base/text.h"

enum {
	CLIENT_TIMEOUT_MS = 5000,
	CONTROL_MUTE_MS = 1000, /* for the control socket, if the clients' socket has timed out already */
};

/* Advice for a socket without a listener, and for the same in a container. */
static struct safe_string start_advice(const struct doctor *doctor, const char *in_container)
{
	struct safe_string advice;

	snprintf(advice.text, sizeof(advice.text), "%s In a container, %s.", doctor->state->missing, in_container);
	return advice;
}

static bool check_socket(struct doctor *doctor)
{
	struct stat status;
	int error = stat(doctor->path, &status) < 0 ? errno : 0;

	if (error == EACCES)
		finding(doctor, MARK_FAIL, "socket", "'namei -l' shows which directory on the way denies access.",
			"user %u may not look into the directory of %s", geteuid(), doctor->path);
	else if (error)
		finding(doctor, MARK_FAIL, "socket",
			start_advice(doctor, access("/run/userevd/client", F_OK) == 0
						     ? "start it on its host"
						     : "mount the host's directory: "
						       "'-v /run/userevd/client:/run/userevd/client:ro', see "
						       "userevd-containers(7)")
				.text,
			"there is none at %s: %s", doctor->path, strerror(error));
	else if (!S_ISSOCK(status.st_mode))
		finding(doctor, MARK_FAIL, "socket",
			"Remove it and start the daemon, or give the right path: --socket or USEREV_SOCKET.",
			"%s exists, but it is not a socket", doctor->path);
	else
		finding(doctor, MARK_OK, "socket", NULL, "%s exists", doctor->path);
	return !error && S_ISSOCK(status.st_mode);
}

static void explain_denial(struct doctor *doctor)
{
	struct stat status = { 0 };
	const struct passwd *owner;
	const struct group *group;

	stat(doctor->path, &status);
	owner = getpwuid(status.st_uid);
	group = getgrgid(status.st_gid);
	finding(doctor, MARK_FAIL, "permission",
		"Ask the admin to let this user write to the socket (SocketMode=, SocketGroup=). If the mode allows it, "
		"a security module denies it: 'journalctl -k'.",
		"user %u may not connect; the socket is %s:%s's with mode %04o", geteuid(),
		owner ? owner->pw_name : "nobody", group ? group->gr_name : "nogroup", status.st_mode & 07777U);
}

/* An error, and the finding about the daemon. */
struct diagnosis {
	int error;
	const char *advice, *sentence; /* without a sentence: for all other errors */
};

static void diagnose(struct doctor *doctor, const struct diagnosis *table, int error, const char *otherwise)
{
	while (table->sentence && table->error != error)
		table++;
	if (table->sentence)
		finding(doctor, MARK_FAIL, "daemon", table->advice, "%s", table->sentence);
	else
		finding(doctor, MARK_FAIL, "daemon", table->advice, "%s: %s", otherwise, strerror(-error));
}

static bool check_permission(struct doctor *doctor)
{
	const struct safe_string advice = start_advice(
		doctor, "mount the directory of the socket, not the socket itself: a daemon that starts again "
			"makes a new socket");
	const struct diagnosis table[] = {
		{ -ECONNREFUSED, advice.text, "the socket exists, but nobody listens: the daemon has ended" },
		{ -EPROTOTYPE, "Give the right path: --socket or USEREV_SOCKET.",
		  "the socket belongs to another program" },
		{ -EAGAIN, "See 'journalctl -u userevd'.",
		  "the daemon does not accept connections: its queue is full" },
		{ 0, NULL, NULL },
	};
	int r = control_open(doctor->path, &doctor->client);

	if (r == 0)
		finding(doctor, MARK_OK, "permission", NULL, "user %u may connect", geteuid());
	else if (r == -EACCES || r == -EPERM)
		explain_denial(doctor);
	else
		diagnose(doctor, table, r, "cannot connect");
	return r == 0;
}

/* Not only in containers: the daemon knows only that the cgroup is not in the machine's own hierarchy. */
bool doctor_find_unguarded_root(struct doctor *doctor, const char *refusal)
{
	const char *key = strstr(refusal, "AllowHost");
	char advice[256];

	if (!key)
		return false;
	snprintf(
		advice, sizeof(advice),
		"Use another user, run the guard if the kernel supports it (userevd-guard(8)), or ask the admin for %.*s=yes.",
		(int)strcspn(key, "= "), key);
	finding(doctor, MARK_FAIL, "guard", advice,
		"nothing guards data files here, and user %u may be root of the machine: in a cgroup that is not the "
		"machine's own it gets none",
		geteuid());
	return true;
}

/* HELLO and QUERY without the library, which would hide the cause. 0 or a negative errno. */
static int doctor_greet(struct doctor *doctor)
{
	const struct wire_hello hello = { 0 };
	_cleanup_(fdset_deinit) struct fdset fds = { 0 };
	struct control *client = doctor->client;
	struct packet packet = control_begin(client, KIND_HELLO);
	struct text text = text_make(doctor->tenant, sizeof(doctor->tenant));
	struct message message = { 0 };
	struct string_item tenant;
	int r;

	client->timeout = CLIENT_TIMEOUT_MS;
	encode_fixed(&packet, KIND_HELLO, &hello);
	r = control_send(client, &packet);
	/* A daemon that has refused the connection already may have closed it; its reason is still to be read. */
	if (r == 0 || r == -EPIPE)
		r = control_receive_fds(client, &message, &fds);
	if (r < 0)
		return r;
	if (message.kind != KIND_WELCOME || decode_welcome(message.body, &doctor->welcome, &tenant) != 0)
		return -EBADMSG;
	text_safe(&text, tenant.text, tenant.length);
	doctor->page = fdset_steal(&fds, 0);
	r = control_ask(client, KIND_QUERY);
	if (r == 0 || r == -EPIPE)
		r = control_receive(client, &message);
	if (r == 0 && (message.kind != KIND_ACCOUNT || decode_fixed(message.body, KIND_ACCOUNT, &doctor->account) != 0))
		r = -EBADMSG;
	return r;
}

static bool check_daemon(struct doctor *doctor)
{
	const struct diagnosis table[] = {
		{ -ETIMEDOUT, doctor->state->mute,
		  doctor->state->by_systemd ? "systemd accepts the connection, but there is no daemon that answers"
					    : "it accepts the connection, but does not answer" },
		{ -EPROTO, "Look for a denial in the kernel's log: 'journalctl -k'.",
		  "its file descriptors do not arrive: a security module withholds them" },
		{ -EBADMSG, "Compare the versions: 'userevctl version'.", "the answer is not in userevd's protocol" },
		{ 0, "The reason is in 'journalctl -u userevd'.", NULL },
	};
	int r = doctor_greet(doctor);

	if (r == 0)
		finding(doctor, MARK_OK, "daemon", NULL, "it answers; this is tenant %s", doctor->tenant);
	else if (r != -EREMOTEIO)
		diagnose(doctor, table, r, "it closed the connection");
	else if (!doctor_find_unguarded_root(doctor, control_refusal.sentence))
		finding(doctor, MARK_FAIL, "daemon",
			control_refusal.number == REFUSAL_TOO_MANY_CONNECTIONS
				? "'userevctl events' shows an admin which programs hold connections."
				: "Ask the admin to look at 'journalctl -u userevd'.",
			"it refused the connection (%s): %s", refusal_name(control_refusal.number),
			control_refusal.sentence);
	return r == 0;
}

static void check_control(struct doctor *doctor)
{
	const char *path = doctor->ctl->control_socket;
	/* systemd accepts connections also for a daemon that does not run. */
	int r = control_ask_status(path, doctor->greeted ? CONTROL_TIMEOUT_MS : CONTROL_MUTE_MS, &doctor->status);

	if (doctor->status.at)
		row_get_string(doctor->status, "policy", doctor->policy, sizeof(doctor->policy));
	if (r == 0)
		finding(doctor, MARK_OK, "control", NULL, "user %u is an admin of the daemon at %s", geteuid(), path);
	else if (r == -EACCES || r == -EPERM)
		finding(doctor, MARK_NOTE, "control",
			"Programs do not need it. For status, enable and tail be root or in the group of that socket.",
			"user %u may not use %s", geteuid(), path);
	else
		finding(doctor, MARK_NOTE, "control",
			"Programs do not need it, and inside a container there should be none.",
			r == -ETIMEDOUT ? "no daemon answers at %s" : "cannot reach a daemon at %s: %s", path,
			strerror(-r));
}

static void check_backend(struct doctor *doctor)
{
	struct safe_string why = row_string(doctor->status, "why"), note = row_string(doctor->status, "note"),
			   guard = row_string(doctor->status, "guard");
	const char *advice = *note.text ? note.text : NULL;
	uint16_t backend = doctor->welcome.backend;

	if (backend == BACKEND_EMBEDDED) {
		finding(doctor, MARK_NOTE, "backend", *why.text ? why.text : NULL,
			"embedded: the daemon itself records, and userevctl shows the records; ftrace and perf do not see "
			"these events");
		return;
	}
	finding(doctor, MARK_OK, "backend", *why.text ? why.text : NULL,
		"%s: events are the kernel's, for ftrace and perf", backend_name(backend));
	if (strncmp(guard.text, "off", 3) == 0)
		finding(doctor, MARK_NOTE, "guard", advice,
			"off: each program has a data file of its own, with which it could register events by itself");
	else if (*guard.text)
		finding(doctor, MARK_OK, "guard", advice,
			"%s: with a data file a program can write records, but not register events by itself",
			guard.text);
}

static void check_machine(struct doctor *doctor)
{
	struct probe probe;

	probe_machine(NULL, &probe);
	if (probe.may_look)
		finding(doctor, MARK_OK, "tracefs", NULL, "mounted at %s", probe.tracefs);
	else if (probe.tracefs_mounted)
		finding(doctor, MARK_OK, "tracefs", NULL, "mounted at %s, which user %u may not search", probe.tracefs,
			geteuid());
	else
		finding(doctor, MARK_NOTE, "tracefs",
			"Only the daemon and tracers need it: 'mount -t tracefs tracefs /sys/kernel/tracing' on the host.",
			"not mounted here");

	if (probe.has_user_events)
		finding(doctor, MARK_OK, "kernel", NULL, "it has user_events (%s)", backend_name(probe.kind));
	else if (doctor->greeted && doctor->welcome.backend != BACKEND_EMBEDDED)
		finding(doctor, MARK_OK, "kernel", NULL, "it has user_events, which the daemon uses");
	else if (probe.tracefs_mounted && !probe.may_look)
		finding(doctor, MARK_NOTE, "kernel", "Look as root, outside of any container.",
			"user %u cannot see here whether it has user_events", geteuid());
	else
		finding(doctor, MARK_NOTE, "kernel",
			"The embedded backend works without. For ftrace and perf use a kernel with CONFIG_USER_EVENTS=y.",
			probe.tracefs_mounted ? "it has no user_events"
					      : "whether it has user_events cannot be seen here");

	if (probe.has_user_events)
		finding(doctor, probe.may_open ? MARK_OK : MARK_NOTE, "access",
			probe.may_open ? NULL : "Programs need not: the daemon opens it for them, as root.",
			"user %u %s open user_events_data directly", geteuid(), probe.may_open ? "may" : "may not");
	/* From inside a container the daemon may see more than doctor. */
	if (!streq(probe.sentence, row_string(doctor->status, "why").text))
		finding(doctor, MARK_NOTE, "machine", NULL, "%s", probe.sentence);
}

static void examine(struct doctor *doctor)
{
	doctor->state = doctor_ask_systemd(doctor->path);
	doctor->greeted = check_socket(doctor) && check_permission(doctor) && check_daemon(doctor);
	check_control(doctor);
	doctor_check_user(doctor);
	doctor_check_policy_files(doctor);
	if (doctor->greeted)
		check_backend(doctor);
	check_machine(doctor);
	if (!doctor->greeted) {
		finding(doctor, MARK_SKIP, "policy, quota, page, record", NULL,
			"not tried: no daemon accepts this program as a client");
		return;
	}
	doctor_check_registration(doctor);
	doctor_check_quota(doctor);
	doctor_check_page(doctor);
	doctor_check_record(doctor);
	doctor_check_losses(doctor);
}

static int doctor_run(struct ctl *ctl)
{
	_cleanup_(freep) struct doctor *doctor = must(calloc(1, sizeof(*doctor)));
	const char *policy = POLICY_DIRECTORIES;
	int r;

	options_read(ctl, &policy, 0, 0);
	string_copy(doctor->policy, sizeof(doctor->policy), policy);
	doctor->ctl = ctl;
	doctor->path = clients_socket_path(ctl);
	doctor->page = -1;
	findings_begin(doctor);
	examine(doctor);
	findings_end(doctor);
	if (doctor->registered)
		userev_release(doctor->userev, &doctor->event);
	userev_close(doctor->userev);
	fd_close(doctor->page);
	control_free(doctor->client);
	free((void *)doctor->status.at);
	r = ctl_finish(ctl);
	return r == EXIT_DONE && doctor->failed ? EXIT_REFUSED : r;
}

static const struct option_row doctor_options[] = {
	{ .name = "policy",
	  .argument = "DIR[:DIR...]",
	  .kind = OPTION_TEXT,
	  .help = "check these files if no daemon names its own" },
	{ 0 },
};

COMMAND(doctor, "", "find out why events do not work here", doctor_options,
	"Checks each cause by itself: the socket, permission, the daemon and its units,\n"
	"errors in the policy files, its backend, tracefs and the kernel, policy, quota,\n"
	"the status page, one record written and read back. Exit status 0 if events work\n"
	"from here, 1 if not. Put the output into a bug report.");
