/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * session load and session check: sessions as files, for the boot. NAME.conf has a section [Session], whose keys are the options of
 * create: KernelEvent= is --kernel-event=. The syntax and the directories are those of policy files.
 */

#include <ctype.h>

#include "client/userevctl/policy/policy.h"
#include "client/userevctl/session/session.h"
#include "daemon/policy/file.h"
#include "protocol/base/suggest.h"

#define SESSION_DIRECTORIES "/etc/userevd/sessions.d:/run/userevd/sessions.d:/usr/lib/userevd/sessions.d"

enum { SESSION_KEY_MAX = 32 };

/* A file that is read. The options of its session point into the text. */
struct session_file {
	const char *path;
	char *name, *text, *original;
};

static void session_file_deinit(struct session_file *file)
{
	free(file->name);
	free(file->text);
	free(file->original);
}

/* "kernel-event" → "KernelEvent" */
static void option_key(const struct option_row *row, char ret[static SESSION_KEY_MAX])
{
	bool begins = true;

	for (const char *at = row->name; *at; at++) {
		if (*at != '-')
			*ret++ = begins ? (char)toupper(*at) : *at;
		begins = *at == '-';
	}
	*ret = '\0';
}

/* NULL, or a sentence about the right values. */
static const char *set_value(void *member, const struct option_row *row, const char *value)
{
	if (row->kind == OPTION_FLAG) {
		*(bool *)member = streq(value, "yes");
		return streq(value, "yes") || streq(value, "no") ? NULL : "give yes or no";
	}
	return *value ? option_set(row, value, member) : "give a value, or leave the line out";
}

static void set_key(struct session *session, const char *value, struct policy_origin place, struct problems *problems)
{
	struct suggestions suggestions = { .wanted = place.key };
	const char *nearest, *right;
	char name[SESSION_KEY_MAX];

	for (size_t i = 0; i < SESSION_CREATE_OPTIONS; i++) {
		const struct option_row *row = &session_options[i];

		option_key(row, name);
		suggest(&suggestions, name, strlen(name));
		if (!streq(name, place.key))
			continue;
		right = set_value((char *)session + row->member, row, value);
		if (right)
			problems_add(problems, PROBLEM_ERROR, place, "%s=%s: %s", name, excerpt_of(value).text, right);
		return;
	}
	nearest = suggestions_nearest(&suggestions);
	problems_add(problems, PROBLEM_ERROR, place, "%s: there is no such key; %s%s%s", excerpt_of(place.key).text,
		     nearest ? "did you mean " : "userevctl(1) has them all", nearest ? nearest : "",
		     nearest ? "=?" : "");
}

static void read_keys(const struct session_file *file, struct session *session, struct problems *problems)
{
	struct policy_reader reader = { .at = file->text };
	bool begun = false;
	char *line;

	while ((line = policy_read_line(&reader))) {
		struct policy_origin place = { .file = file->path, .line = reader.number };
		char *value = strchr(line, '=');

		if (streq(line, "[Session]")) {
			begun = true;
		} else if (!begun || !value) {
			problems_add(
				problems, PROBLEM_ERROR, place,
				"%s: write [Session] and below it Key=value, or # and a comment, on lines of their own",
				excerpt_of(line).text);
		} else {
			*value++ = '\0';
			place.key = policy_strip(line);
			set_key(session, policy_strip(value), place, problems);
		}
	}
}

/* Sets the session's name and options. False: the file has problems, or is a mask. */
static bool read_session(struct session_file *file, struct session *session, struct problems *problems)
{
	const struct policy_origin place = { .file = file->path };
	const char *name = policy_file_name(file->path), *suffix = strrchr(name, '.');
	const size_t before = problems->n;

	session->name = file->name = must(strndup(name, suffix ? (size_t)(suffix - name) : strlen(name)));
	file->text = policy_read_file(file->path, problems);
	if (!file->text)
		return false;
	file->original = must(strdup(file->text));
	if (!session_name_is_good(file->name))
		problems_add(
			problems, PROBLEM_ERROR, place,
			"no session can have this name: give at most %d letters, digits, '_', '-' and '.', of which "
			"the first is none of the last two",
			SESSION_NAME_MAX);
	read_keys(file, session, problems);
	if (problems->n == before && session_is_empty(session))
		problems_add(problems, PROBLEM_ERROR, place,
			     "it records nothing; give Event=, KernelEvent=, Probe= or Tracer=");
	if (problems->failed)
		must(NULL);
	return problems->n == before;
}

/* Behind the message of create: the line of the value that it used last. */
static void add_not_made(const struct session_file *file, const struct session *session, struct problems *problems)
{
	struct policy_origin place = { .file = file->path, .line = session->tried ? 1 : 0 };

	for (const char *at = file->text; session->tried && at < session->tried; at++)
		place.line += file->original[at - file->text] == '\n';
	problems_add(problems, PROBLEM_ERROR, place,
		     "the session is not made; correct that, and run 'userevctl session load %s'", session->name);
}

static int load_file(const struct session *load, const char *path)
{
	static struct session session; /* large */
	_cleanup_(session_file_deinit) struct session_file file = { .path = path };
	_cleanup_(problems_deinit) struct problems problems = { 0 };
	const struct output *output = &load->ctl->output;

	session_init(&session, load->ctl);
	session.tracing = load->tracing;
	if (read_session(&file, &session, &problems)) {
		session.instance = session_instance(session.name);
		if (session.instance && output->json)
			json_print(output->file, json_text("session", session.name), json_bool("exists", true));
		else if (session.instance)
			fprintf(output->file, "session '%s' exists.\n", session.name);
		else if (session_create(&session) != EXIT_DONE)
			add_not_made(&file, &session, &problems);
		session_deinit(&session);
	}
	problems_note(&problems, output->when);
	return problems.n > 0 ? EXIT_REFUSED : EXIT_DONE;
}

static const char *find_path(const struct policy_files *files, const char *name)
{
	const size_t length = strlen(name);

	for (size_t i = 0; i < files->n; i++) {
		const char *file = policy_file_name(files->path[i]);

		if (strncmp(file, name, length) == 0 && streq(file + length, ".conf"))
			return files->path[i];
	}
	return NULL;
}

int session_load(struct session *session)
{
	_cleanup_(policy_files_deinit) struct policy_files files = { 0 };
	_cleanup_(problems_deinit) struct problems problems = { 0 };
	const struct ctl *ctl = session->ctl;
	int r;

	policy_list_files(SESSION_DIRECTORIES, NULL, &problems, &files);
	problems_note(&problems, ctl->output.when);
	r = problems.n > 0 ? EXIT_REFUSED : EXIT_DONE;
	for (size_t i = 0; ctl->argc == 1 && i < files.n; i++)
		if (load_file(session, files.path[i]) != EXIT_DONE)
			r = EXIT_REFUSED;
	for (int i = 1; i < ctl->argc; i++) {
		const char *path = find_path(&files, ctl->argv[i]);

		if (!path)
			ctl_error("there is no file %s.conf in %s.", excerpt_of(ctl->argv[i]).text,
				  SESSION_DIRECTORIES);
		if (!path || load_file(session, path) != EXIT_DONE)
			r = EXIT_REFUSED;
	}
	return r;
}

int session_check(struct session *session)
{
	_cleanup_(policy_files_deinit) struct policy_files files = { 0 };
	_cleanup_(problems_deinit) struct problems problems = { 0 };
	struct ctl *ctl = session->ctl;
	const size_t named = (size_t)ctl->argc - 1;
	size_t n;

	if (named == 0)
		policy_list_files(SESSION_DIRECTORIES, NULL, &problems, &files);
	n = MAX(named, files.n);
	for (size_t i = 0; i < n; i++) {
		_cleanup_(session_file_deinit) struct session_file file = { .path = named > 0 ? ctl->argv[i + 1]
											      : files.path[i] };

		session_init(session, ctl);
		read_session(&file, session, &problems);
	}
	problems_show(&problems, &ctl->output);
	if (!ctl->output.json)
		ctl_note("%s: %s.", plural(n, "file", "files").text,
			 problems.n > 0 ? plural(problems.n, "error", "errors").text : "no error");
	session->name = NULL; /* of a file */
	return problems.n > 0 ? EXIT_REFUSED : EXIT_DONE;
}
