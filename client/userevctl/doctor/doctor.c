/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * doctor: why does it not work here? Each cause is looked for by itself, in the order in which a program would meet it,
 * and has a sentence of its own. It registers one event of its own and writes one record, and changes nothing else.
 */

#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <sys/stat.h>

#include "client/userevctl/doctor/doctor.h"
#include "daemon/policy/policy.h"
#include "kernel/probe.h"
#include "protocol/base/text.h"

enum { CONTROL_MUTE_MS = 1000 }; /* for the admins' socket, once the clients' has kept us waiting */

static const struct ctl_option doctor_options[] = {
	{ "policy", "DIR[:DIR...]", "look for errors here where no daemon says where its files are", 1 },
	{ 0 },
};

struct advice {
	char text[512];
};

/* Where nobody listens. */
static struct advice start_advice(const struct doctor *doctor, const char *in_container)
{
	struct advice advice;

	snprintf(advice.text, sizeof(advice.text), "%s In a container, %s.", doctor_advice(doctor->state, false),
		 in_container);
	return advice;
}

static bool check_socket(struct doctor *doctor)
{
	struct stat status;

	if (stat(doctor->path, &status) < 0) {
		int error = errno;

		if (error == EACCES)
			finding(&doctor->findings, MARK_FAIL, "socket",
				"Look with 'namei -l' which directory on the way may not be searched.",
				"user %u may not look into the directory of %s", geteuid(), doctor->path);
		else
			finding(&doctor->findings, MARK_FAIL, "socket",
				start_advice(
					doctor,
					access("/run/userevd/client", F_OK) == 0
						? "start it on its host"
						: "mount the host's directory: '-v /run/userevd/client:/run/userevd/client:ro', "
						  "see userevd-containers(7)")
					.text,
				"there is none at %s: %s", doctor->path, strerror(error));
		return false;
	}
	if (!S_ISSOCK(status.st_mode)) {
		finding(&doctor->findings, MARK_FAIL, "socket",
			"Remove it and start the daemon, or give the right path: --socket or USEREV_SOCKET.",
			"%s is there, but it is not a socket", doctor->path);
		return false;
	}
	finding(&doctor->findings, MARK_OK, "socket", NULL, "%s is there", doctor->path);
	return true;
}

static void explain_permission(struct doctor *doctor)
{
	struct stat status = { 0 };
	const struct passwd *owner;
	const struct group *group;

	stat(doctor->path, &status);
	owner = getpwuid(status.st_uid);
	group = getgrgid(status.st_gid);
	finding(&doctor->findings, MARK_FAIL, "permission",
		"Ask the admin to let this user write to the socket (SocketMode=, SocketGroup=). If the mode allows it, "
		"a security module forbids it: 'journalctl -k'.",
		"user %u may not connect; the socket is %s:%s's with mode %04o", geteuid(),
		owner ? owner->pw_name : "nobody", group ? group->gr_name : "nogroup", status.st_mode & 07777U);
}

static bool check_permission(struct doctor *doctor)
{
	int fd = ctl_connect(doctor->path);

	switch (fd < 0 ? fd : 0) {
	case 0:
		doctor->fd = fd;
		finding(&doctor->findings, MARK_OK, "permission", NULL, "user %u may connect", geteuid());
		return true;
	case -EACCES:
	case -EPERM:
		explain_permission(doctor);
		break;
	case -ECONNREFUSED:
		finding(&doctor->findings, MARK_FAIL, "daemon",
			start_advice(doctor, "mount the directory of the socket, not the socket itself: one that is "
					     "made again is another one")
				.text,
			"the socket is there, but nobody listens: the daemon has ended");
		break;
	case -EPROTOTYPE:
		finding(&doctor->findings, MARK_FAIL, "daemon", "Give the right path: --socket or USEREV_SOCKET.",
			"the socket is some other program's");
		break;
	case -EAGAIN:
		finding(&doctor->findings, MARK_FAIL, "daemon", "Look what it does: 'journalctl -u userevd'.",
			"the daemon does not accept connections: its queue is full");
		break;
	default:
		finding(&doctor->findings, MARK_FAIL, "daemon", NULL, "cannot connect: %s", strerror(-fd));
	}
	return false;
}

/* Not only in containers: the daemon knows that the cgroup is not the machine's own, and no more. */
bool doctor_find_unguarded_root(struct doctor *doctor, const char *refusal)
{
	const char *key = strstr(refusal, "AllowHost");
	char advice[256];

	if (!key)
		return false;
	snprintf(
		advice, sizeof(advice),
		"Be another user, get the guard where the kernel has it (userevd-guard(8)), or ask the admin for %.*s=yes.",
		(int)strcspn(key, "= "), key);
	finding(&doctor->findings, MARK_FAIL, "guard", advice,
		"nothing guards data files here, and user %u may be root of the machine: in a cgroup that is not the "
		"machine's own it gets none",
		geteuid());
	return true;
}

static bool check_daemon(struct doctor *doctor)
{
	const struct greeting *greeting = &doctor->greeting;
	char buffer[4 * WIRE_TENANT_MAX + 1];
	struct text tenant = text_make(buffer, sizeof(buffer));
	int r = greet(doctor->fd, &doctor->greeting);

	switch (r) {
	case 0:
		text_safe(&tenant, greeting->tenant, strlen(greeting->tenant));
		finding(&doctor->findings, MARK_OK, "daemon", NULL, "it answers; here is tenant %s", buffer);
		return true;
	case -EREMOTEIO:
		if (doctor_find_unguarded_root(doctor, greeting->sentence))
			break;
		finding(&doctor->findings, MARK_FAIL, "daemon",
			greeting->refusal == REFUSAL_TOO_MANY_CONNECTIONS
				? "Look which programs hold connections: 'userevctl events', as an admin."
				: "Ask the admin to look at 'journalctl -u userevd'.",
			"it refused the connection (%s): %s", refusal_name(greeting->refusal), greeting->sentence);
		break;
	case -ETIMEDOUT:
		finding(&doctor->findings, MARK_FAIL, "daemon", doctor_advice(doctor->state, true), "%s",
			doctor->state == DAEMON_BY_HAND || doctor->state == DAEMON_RUNS
				? "it takes the connection, but does not answer"
				: "systemd takes the connection, but there is no daemon that answers");
		break;
	case -EPROTO:
		finding(&doctor->findings, MARK_FAIL, "daemon",
			"Look for a denial in the kernel's log: 'journalctl -k'.",
			"its file descriptors do not arrive: a security module keeps them back");
		break;
	case -EBADMSG:
		finding(&doctor->findings, MARK_FAIL, "daemon", "Compare the versions: 'userevctl version'.",
			"what answers does not speak this protocol");
		break;
	default:
		finding(&doctor->findings, MARK_FAIL, "daemon", "Look why: 'journalctl -u userevd'.",
			"it ended the connection: %s", strerror(-r));
	}
	return false;
}

static void take_sentence(struct cursor row, const char *key, char *ret, size_t size)
{
	struct row_field field;
	struct text sentence;

	if (!row_find(row, key, &field) || field.type != ROW_STRING)
		return;
	sentence = text_make(ret, size);
	text_safe(&sentence, (const char *)field.value, field.length);
}

/* What the daemon itself says: systemd takes connections for one that is not there. 0 or a negative errno. */
static int ask_daemon(struct doctor *doctor)
{
	struct cursor row = { 0 };
	int r = control_ask(doctor->control, KIND_STATUS);

	if (r == 0 && !doctor->greeted &&
	    poll(&(struct pollfd){ .fd = doctor->control->fd, .events = POLLIN }, 1, CONTROL_MUTE_MS) == 0)
		r = -ETIMEDOUT;
	if (r == 0)
		r = control_next_row(doctor->control, &row);
	take_sentence(row, "why", doctor->why, sizeof(doctor->why));
	take_sentence(row, "guard", doctor->guard, sizeof(doctor->guard));
	take_sentence(row, "note", doctor->note, sizeof(doctor->note));
	take_sentence(row, "policy_note", doctor->policy_note, sizeof(doctor->policy_note));
	take_sentence(row, "policy", doctor->policy, sizeof(doctor->policy));
	return r > 0 ? 0 : r < 0 ? r : -EBADMSG;
}

static void check_control(struct doctor *doctor)
{
	const char *path = doctor->ctl->control_socket;
	int r = control_open(path, &doctor->control);

	if (r == 0) {
		r = ask_daemon(doctor);
		if (r < 0)
			doctor->control = control_free(doctor->control);
	}
	if (r == 0)
		finding(&doctor->findings, MARK_OK, "control", NULL, "user %u is an admin of the daemon at %s",
			geteuid(), path);
	else if (r == -EACCES || r == -EPERM)
		finding(&doctor->findings, MARK_NOTE, "control",
			"Programs do not need it. For status, enable and tail be root or in the group of that socket.",
			"user %u may not use %s", geteuid(), path);
	else
		finding(&doctor->findings, MARK_NOTE, "control",
			"Programs do not need it, and inside a container there should be none.",
			r == -ETIMEDOUT ? "no daemon answers at %s" : "no daemon to be reached at %s: %s", path,
			strerror(-r));
}

static void check_kernel_backend(struct doctor *doctor, uint16_t backend)
{
	const char *note = doctor->note[0] ? doctor->note : NULL;
	bool is_off = strncmp(doctor->guard, "off", 3) == 0;

	finding(&doctor->findings, MARK_OK, "backend", doctor->why[0] ? doctor->why : NULL,
		"%s: events are the kernel's, for ftrace and perf", backend_name(backend));
	if (is_off)
		finding(&doctor->findings, MARK_NOTE, "guard", note,
			"off: each program has a data file of its own, on which it could register by itself");
	else if (doctor->guard[0])
		finding(&doctor->findings, MARK_OK, "guard", note,
			"%s: who holds a data file can write records, but register nothing by itself", doctor->guard);
}

static void check_backend(struct doctor *doctor)
{
	uint16_t backend = doctor->greeting.welcome.backend;

	if (backend != BACKEND_EMBEDDED)
		check_kernel_backend(doctor, backend);
	else
		finding(&doctor->findings, MARK_NOTE, "backend", doctor->why[0] ? doctor->why : NULL,
			"embedded: the daemon itself records, and userevctl shows it; ftrace and perf see nothing");
}

static void check_tracefs(struct doctor *doctor, const struct probe *probe)
{
	if (probe->may_look)
		finding(&doctor->findings, MARK_OK, "tracefs", NULL, "mounted at %s", probe->tracefs);
	else if (probe->tracefs_mounted)
		finding(&doctor->findings, MARK_OK, "tracefs", NULL, "mounted at %s, which user %u may not search",
			probe->tracefs, geteuid());
	else
		finding(&doctor->findings, MARK_NOTE, "tracefs",
			"Only the daemon and who traces need it: 'mount -t tracefs tracefs /sys/kernel/tracing' on the "
			"host.",
			"not mounted here");
}

/* What this process can't see the daemon's backend may tell. */
static void check_kernel(struct doctor *doctor, const struct probe *probe)
{
	if (probe->has_user_events)
		finding(&doctor->findings, MARK_OK, "kernel", NULL, "it has user_events (%s)",
			backend_name(probe->kind));
	else if (doctor->greeted && doctor->greeting.welcome.backend != BACKEND_EMBEDDED)
		finding(&doctor->findings, MARK_OK, "kernel", NULL, "it has user_events, which the daemon uses");
	else if (probe->tracefs_mounted && !probe->may_look)
		finding(&doctor->findings, MARK_NOTE, "kernel", "Look as root, outside of any container.",
			"whether it has user_events cannot be seen here by user %u", geteuid());
	else
		finding(&doctor->findings, MARK_NOTE, "kernel",
			"The embedded backend works without. For ftrace and perf use a kernel with CONFIG_USER_EVENTS=y.",
			probe->tracefs_mounted ? "it has no user_events"
					       : "whether it has user_events cannot be seen here");
}

static void check_machine(struct doctor *doctor)
{
	struct probe probe;

	probe_machine(NULL, &probe);
	check_tracefs(doctor, &probe);
	check_kernel(doctor, &probe);
	if (probe.has_user_events)
		finding(&doctor->findings, probe.may_open ? MARK_OK : MARK_NOTE, "access",
			probe.may_open ? NULL : "Programs need not: the daemon opens it for them, as root.",
			"user %u %s open user_events_data directly", geteuid(), probe.may_open ? "may" : "may not");
	/* Inside a container the daemon sees more than we do. */
	if (!streq(probe.sentence, doctor->why))
		finding(&doctor->findings, MARK_NOTE, "machine", NULL, "%s", probe.sentence);
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
		finding(&doctor->findings, MARK_SKIP, "policy, quota, page, record", NULL,
			"not tried: no daemon takes us as a client");
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
	_cleanup_(freep) struct doctor *doctor = calloc(1, sizeof(*doctor));
	const char *value;
	int r;

	if (!doctor) {
		ctl_error("out of memory.");
		return EXIT_REFUSED;
	}
	string_copy(doctor->policy, sizeof(doctor->policy), POLICY_DIRECTORIES);
	while (ctl_next_option(ctl, &value) != 0)
		string_copy(doctor->policy, sizeof(doctor->policy), value);
	ctl_expect_arguments(ctl, 0, 0);
	doctor->ctl = ctl;
	doctor->path = greet_socket(ctl);
	doctor->fd = -1;
	doctor->greeting.page = -1;
	findings_begin(&doctor->findings, &ctl->output, doctor->path);
	examine(doctor);
	findings_end(&doctor->findings);
	if (doctor->registered)
		userev_release(doctor->userev, &doctor->event);
	userev_close(doctor->userev);
	greeting_deinit(&doctor->greeting);
	control_free(doctor->control);
	fd_close(doctor->fd);
	r = ctl_finish(ctl);
	return r == EXIT_DONE && doctor->findings.failed ? EXIT_REFUSED : r;
}

const struct command command_doctor = {
	.name = "doctor",
	.arguments = "",
	.summary = "why does it not work here, and what to do",
	.help = "Looks for each cause by itself: the socket, permission, the daemon and its units,\n"
		"errors in the policy files, its backend, tracefs and the kernel, policy, quota,\n"
		"the status page, one record written and read back. Exit status 0 if events work\n"
		"from here, 1 if not. The output is fit for a bug report.",
	.options = doctor_options,
	.run = doctor_run,
};
