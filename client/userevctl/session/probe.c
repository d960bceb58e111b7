/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Probes of a session: events that the kernel makes of functions (p, r, f, t) or of other events (e), in dynamic_events. */

#include "client/userevctl/session/session.h"

static const char file[] = "dynamic_events";

int session_probes_walk(session_probe_fn *found, void *data)
{
	_cleanup_(freep) char *text = tracefs_instance_file_read(NULL, file, NULL);
	char *rest = text;
	int r = 0;

	for (char *line; r == 0 && (line = strsep(&rest, "\n"));) {
		_cleanup_(freep) char *whole = must(strdup(line));
		char *colon = strchr(line, ':'), *slash = colon ? strchr(colon, '/') : NULL;

		/* "p:GROUP/EVENT vfs_read". Otherwise it is a user event, or has no group. */
		if (line[0] == 'u' || !slash)
			continue;
		*slash = '\0';
		slash[1 + strcspn(slash + 1, " ")] = '\0';
		if (!strchr(colon + 1, ' '))
			r = found(data, colon + 1, slash + 1, whole);
	}
	return r;
}

static int append(const char *text)
{
	return tracefs_instance_file_append(NULL, file, text) >= 0 ? 0 : errno ? -errno : -EIO;
}

static int remove_probe(void *data, const char *group, const char *event, const char *line _unused_)
{
	_cleanup_(freep) char *text = NULL;

	if (!streq(group, data))
		return 0;
	must(asprintf(&text, "-:%s/%s", group, event) < 0 ? NULL : text);
	return append(text);
}

int session_remove_probes(const char *group)
{
	return session_probes_walk(remove_probe, (void *)group);
}

/* The log of the top instance has the errors of all programs: it counts if its last command is part of the text. NULL: it does not. */
static char *read_error_log(const char *text)
{
	static const char mark[] = "Command: ";
	_cleanup_(freep) char *log = tracefs_instance_file_read(NULL, "error_log", NULL), *command = NULL;
	const char *last = "";

	for (const char *at = log; at && (at = strstr(at, mark));)
		last = at += strlen(mark);
	command = must(strndup(last, strcspn(last, "\n")));
	return *command && strstr(text, command) ? steal_pointer(log) : NULL;
}

static int make_probe(struct session *session, const char *group, const char *typed)
{
	/* "p:NAME REST": its parts. */
	const size_t type = 1 + strspn(typed + (typed[0] != '\0'), "0123456789");
	const bool has_type = typed[0] && strchr("prfte", typed[0]) && typed[type] == ':';
	const char *event = has_type ? typed + type + 1 : "";
	const size_t length = strcspn(event, " ");
	_cleanup_(freep) char *text = NULL, *name = NULL, *log = NULL;
	int r;

	if (length == 0 || memchr(event, '/', length) || event[length] != ' ') {
		ctl_error("--probe='%s': give 'p:NAME FUNCTION', 'f:NAME FUNCTION' or 'e:NAME SYSTEM.EVENT', perhaps "
			  "with the values to record behind it, as 'us=$us'.",
			  excerpt_of(typed).text);
		return EXIT_USAGE;
	}
	name = must(strndup(event, length));
	must(asprintf(&text, "%.*s:%s/%s", (int)type, typed, group, event) < 0 ? NULL : text);
	r = append(text);
	if (r == -EACCES || r == -EPERM || r == -EROFS || r == -ENOMEM)
		return tracefs_explain("make a probe", r);
	if (r < 0) {
		log = read_error_log(text);
		tracefs_explain_refused(name, text, log, r);
		return EXIT_REFUSED;
	}
	session_choose(session, group, name, false);
	return EXIT_DONE;
}

int session_make_probes(struct session *session)
{
	char group[SESSION_GROUP_MAX];
	int r = EXIT_DONE;

	if (session->probes.n > 0 && !session_group(session->name, group)) {
		ctl_error("--probe: the name '%s' is too long for a session with probes: give one of at most %zu "
			  "letters and digits.",
			  session->name, SESSION_GROUP_MAX - sizeof("userevd_"));
		return EXIT_USAGE;
	}
	for (size_t i = 0; r == EXIT_DONE && i < session->probes.n; i++) {
		session->tried = session->probes.text[i];
		r = make_probe(session, group, session->tried);
	}
	return r;
}
