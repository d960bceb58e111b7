/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "client/userevctl/name/json_reader.h"
#include "client/userevctl/name/name.h"
#include "daemon/identity/cgroup.h"
#include "tests/suite.h"

#define ID "5cf65dcc0123456789abcdef0123456789abcdef0123456789abcdef01234567"

static struct json_value member(const char *text, const char *key)
{
	return json_member((struct json_value){ text, text + strlen(text) }, key);
}

TEST(strings_are_found_and_decoded)
{
	static const struct {
		const char *text, *value; /* of the member "k"; NULL: there is none */
	} cases[] = {
		{ "{\"k\":\"v\"}", "v" },
		{ " { \"a\" : [ 1 , { \"k\" : \"no\" } ] , \"k\" : \"v\" } ", "v" },
		{ "{\"a\":{\"k\":\"}\\\"]\"},\"k\":\"v\"}", "v" },
		{ "{\"a\":\"\\\\\",\"k\":\"v\"}", "v" },
		{ "{\"k\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}", "\"\\/\b\f\n\r\t" },
		{ "{\"k\":\"\\ud83d\\ude00\\udb42\\udc61\"}", "\xf0\x9f\x98\x80\xf3\xa0\xa1\xa1" },
		{ "{\"\\u006b\":\"v\"}", "v" },
		{ "{\"k\":\"\"}", "" },
		{ "{\"k\":\"\\u0000\"}", NULL },
		{ "{\"k\":\"\\u12\"}", NULL },
		{ "{\"k\":\"v", NULL },
		{ "{\"k\":\"v\\", NULL },
		{ "{\"k\":1}", NULL },
		{ "{\"k\":null}", NULL },
		{ "{\"k\"}", NULL },
		{ "{\"k\":}", NULL },
		{ "[\"k\",\"v\"]", NULL },
		{ "{\"a\":[[[[[[[[\"k\":\"v\"}", NULL },
		{ "", NULL },
		{ "{", NULL },
		{ "\"", NULL },
	};
	char value[32];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bool found = json_string_of(member(cases[i].text, "k"), value, sizeof(value));

		ck_assert_msg(found == !!cases[i].value, "%s: %s", cases[i].text, found ? value : "none");
		ck_assert_msg(!found || streq(value, cases[i].value), "%s: '%s'", cases[i].text, value);
	}
	ck_assert(!json_string_of(member("{\"k\":\"1234\"}", "k"), value, 4));
	ck_assert(json_string_of(member("{\"k\":\"123\"}", "k"), value, 4));
}

TEST(arrays_are_read)
{
	struct json_value array = member("{\"k\":[ \"a\" , [\"no\"], {} ]}", "k"), item;
	int n = 0;

	while (json_next(&array, &item))
		n++;
	ck_assert_int_eq(n, 3);
	array = member("{\"k\":[]}", "k");
	ck_assert(!json_next(&array, &item));
}

static void write_file(const char *directory, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	fclose(file);
}

static bool naming_of(const char *bundle, const char *annotations, struct naming *ret)
{
	char state[1024];

	snprintf(state, sizeof(state),
		 "{\"ociVersion\":\"1.0\",\"id\":\"" ID
		 "\",\"pid\": 12 ,\"root\":\"/\",\"bundle\":\"%s\",\"status\":\"created\","
		 "\"annotations\":{%s}}",
		 bundle, annotations);
	return naming_of_oci_state(state, strlen(state), ret);
}

TEST(each_engine_has_its_place_for_names)
{
	static const struct {
		const char *bundle, *annotations, *name, *engine, *pod;
	} cases[] = {
		{ "/run/containerd/io.containerd.runtime.v2.task/default/shop", "", ID, "containerd", "" },
		{ "/run/containerd/io.containerd.runtime.v2.task/default/shop", "\"nerdctl/name\":\"shop\"", "shop",
		  "containerd", "" },
		{ "/nowhere/" ID "/userdata", "\"io.container.manager\":\"libpod\"", ID, "podman", "" },
		{ "/nowhere", "", ID, "container", "" },
		{ "/run/containerd/io.containerd.runtime.v2.task/k8s.io/" ID,
		  "\"io.kubernetes.cri.sandbox-namespace\":\"default\",\"io.kubernetes.cri.sandbox-name\":\"checkout-7d9f\","
		  "\"io.kubernetes.cri.sandbox-uid\":\"3f2a\",\"io.kubernetes.cri.container-name\":\"app\"",
		  "default/checkout-7d9f/app", "pod", "default/checkout-7d9f" },
		{ "/var/run/containers",
		  "\"io.kubernetes.pod.namespace\":\"default\",\"io.kubernetes.pod.name\":\"web\"", "default/web",
		  "pod", "default/web" },
	};
	struct naming naming;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		ck_assert(naming_of(cases[i].bundle, cases[i].annotations, &naming));
		ck_assert_int_eq(naming.pid, 12);
		ck_assert_str_eq(naming.name, cases[i].name);
		ck_assert_str_eq(naming.engine, cases[i].engine);
		ck_assert_str_eq(naming.pod, cases[i].pod);
	}
}

TEST(podman_keeps_names_above_the_bundle)
{
	char directory[128], bundle[256];
	struct naming naming;

	make_temporary_directory(directory, sizeof(directory));
	snprintf(bundle, sizeof(bundle), "%s/" ID, directory);
	ck_assert_int_eq(mkdir(bundle, 0700), 0);
	snprintf(bundle, sizeof(bundle), "%s/" ID "/userdata", directory);
	ck_assert_int_eq(mkdir(bundle, 0700), 0);
	write_file(directory, "containers.json",
		   "[{\"id\":\"other\",\"names\":[\"bank\"]},{\"id\":\"" ID "\",\"names\":[\"shop\",\"second\"]}]");
	ck_assert(naming_of(bundle, "\"io.container.manager\":\"libpod\"", &naming));
	ck_assert_str_eq(naming.name, "shop");
	write_file(directory, "containers.json", "[{\"id\":\"" ID "\",\"names\":[]}]");
	ck_assert(naming_of(bundle, "\"io.container.manager\":\"libpod\"", &naming));
	ck_assert_str_eq(naming.name, ID);
	remove_directory(directory);
}

TEST(what_is_no_state_gives_no_name)
{
	static const char *const cases[] = {
		"",
		"{}",
		"nonsense",
		"{\"id\":\"a\",\"bundle\":\"/\"}",
		"{\"id\":\"a\",\"bundle\":\"/\",\"pid\":0}",
		"{\"id\":\"a\",\"bundle\":\"/\",\"pid\":4294967297}",
		"{\"id\":\"a\",\"bundle\":\"/\",\"pid\":-1}",
		"{\"id\":\"a\",\"bundle\":\"/\",\"pid\":1.5}",
		"{\"id\":7,\"bundle\":\"/\",\"pid\":1}",
		"{\"bundle\":\"/\",\"pid\":1}",
	};
	struct naming naming;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		ck_assert_msg(!naming_of_oci_state(cases[i], strlen(cases[i]), &naming), "%s", cases[i]);
}

static void cgroups_deinit(struct cgroups *cgroups)
{
	remove_directory(cgroups->mount);
}

/* A directory in place of the cgroups' mount. */
static struct cgroups make_cgroups(void)
{
	struct cgroups cgroups = { .root = "/" };
	char path[sizeof(cgroups.mount) + 96];

	make_temporary_directory(cgroups.mount, 128);
	snprintf(path, sizeof(path), "%s/user", cgroups.mount);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/user/libpod-" ID ".scope", cgroups.mount);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	return cgroups;
}

TEST(root_names_a_cgroup_and_all_inside)
{
	_cleanup_(cgroups_deinit) struct cgroups cgroups = make_cgroups();

	if (geteuid() != 0)
		return;
	ck_assert_str_eq(tenant_name_in(&cgroups, "/user/libpod-" ID ".scope").text, "5cf65dcc0123 (podman)");
	ck_assert_int_eq(name_write(&cgroups, "/user", "podman", "shop"), 0);
	ck_assert_str_eq(tenant_name_in(&cgroups, "/user").text, "shop (podman)");
	ck_assert_str_eq(tenant_name_in(&cgroups, "/user/libpod-" ID ".scope").text, "shop (podman)");
	ck_assert_int_eq(name_write(&cgroups, "/user", "podman", "renamed"), 0);
	ck_assert_str_eq(tenant_name_in(&cgroups, "/user").text, "renamed (podman)");
	ck_assert_int_eq(name_write(&cgroups, "/none", "podman", "shop"), -ENOENT);
	ck_assert_int_eq(name_write(&cgroups, "/", "podman", "shop"), -ENOENT);
	ck_assert_int_eq(name_write(&cgroups, "/user/../user", "podman", "shop"), -ENOENT);
	ck_assert_int_eq(name_write(&cgroups, "/user/", "podman", "shop"), -ENOENT);
	ck_assert_int_eq(name_write(&cgroups, "", "podman", "shop"), -ENOENT);
	ck_assert_int_eq(name_write(&cgroups, "/.", "podman", "shop"), -ENOENT);
	ck_assert_int_eq(name_write(&cgroups, "/user/.", "podman", "shop"), -ENOENT);
}

TEST(the_name_of_a_user_is_a_claim)
{
	_cleanup_(cgroups_deinit) struct cgroups cgroups = make_cgroups();
	char around[sizeof(cgroups.mount) + 96], value[64];

	if (geteuid() != 0)
		return;
	snprintf(around, sizeof(around), "%s/user", cgroups.mount);
	ck_assert_int_eq(chmod(cgroups.mount, 0755), 0);
	ck_assert_int_eq(chown(around, 1000, 1000), 0);
	/* The owner of the directory around it has chosen its name. */
	ck_assert_str_eq(tenant_name_in(&cgroups, "/user/libpod-" ID ".scope").text,
			 "5cf65dcc0123 (podman of uid 1000)");
	ck_assert_str_eq(tenant_name_in(&cgroups, "/user/cron.service").text, "cron.service (uid 1000)");
	/* Also of a cgroup that has gone. */
	ck_assert_str_eq(tenant_name_in(&cgroups, "/user/docker-" ID ".scope").text,
			 "5cf65dcc0123 (docker of uid 1000)");
	ck_assert_int_eq(setxattr(around, NAME_CLAIM_ATTRIBUTE "gone", "podman old", 10, 0), 0);
	ck_assert_int_eq(seteuid(1000), 0);
	ck_assert_int_eq(name_write(&cgroups, "/user/libpod-" ID ".scope", "podman", "shop"), 0);
	ck_assert_int_lt(name_write(&cgroups, "/user", "podman", "mine"), 0);
	ck_assert_int_eq(seteuid(0), 0);
	ck_assert_str_eq(tenant_name_in(&cgroups, "/user/libpod-" ID ".scope").text, "shop (podman of uid 1000)");
	/* That of a cgroup which has gone makes way. */
	ck_assert_int_lt(getxattr(around, NAME_CLAIM_ATTRIBUTE "gone", value, sizeof(value)), 0);
	/* Root's word counts more. */
	ck_assert_int_eq(name_write(&cgroups, "/user/libpod-" ID ".scope", "podman", "true"), 0);
	ck_assert_str_eq(tenant_name_in(&cgroups, "/user/libpod-" ID ".scope").text, "true (podman)");
}

TEST(another_cgroup_of_the_same_path_has_no_claim)
{
	_cleanup_(cgroups_deinit) struct cgroups cgroups = make_cgroups();
	char around[sizeof(cgroups.mount) + 96], first[sizeof(around) + 96], second[sizeof(around) + 96];

	if (geteuid() != 0)
		return;
	snprintf(around, sizeof(around), "%s/user", cgroups.mount);
	snprintf(first, sizeof(first), "%s/a.scope", around);
	snprintf(second, sizeof(second), "%s/b.scope", around);
	ck_assert_int_eq(chmod(cgroups.mount, 0755), 0);
	ck_assert_int_eq(chown(around, 1000, 1000), 0);
	ck_assert_int_eq(mkdir(first, 0755), 0);
	ck_assert_int_eq(mkdir(second, 0755), 0);
	ck_assert_int_eq(seteuid(1000), 0);
	ck_assert_int_eq(name_write(&cgroups, "/user/a.scope", "podman", "shop"), 0);
	ck_assert_int_eq(seteuid(0), 0);
	ck_assert_str_eq(tenant_name_in(&cgroups, "/user/a.scope").text, "shop (podman of uid 1000)");
	ck_assert_int_eq(rmdir(first), 0);
	ck_assert_int_eq(rename(second, first), 0);
	ck_assert_str_eq(tenant_name_in(&cgroups, "/user/a.scope").text, "a.scope (uid 1000)");
}

TEST(an_attribute_of_nonsense_is_no_name)
{
	_cleanup_(cgroups_deinit) struct cgroups cgroups = make_cgroups();
	char path[sizeof(cgroups.mount) + 96], longest[600];

	if (geteuid() != 0)
		return;
	snprintf(path, sizeof(path), "%s/user", cgroups.mount);
	memset(longest, 'x', sizeof(longest));
	ck_assert_int_eq(setxattr(path, NAME_ATTRIBUTE, longest, sizeof(longest), 0), 0);
	ck_assert_str_eq(tenant_name_in(&cgroups, "/user").text, "user");
	ck_assert_int_eq(setxattr(path, NAME_ATTRIBUTE, "nonsense", 8, 0), 0);
	ck_assert_str_eq(tenant_name_in(&cgroups, "/user").text, "user");
	ck_assert_int_eq(setxattr(path, NAME_ATTRIBUTE, "podman ", 7, 0), 0);
	ck_assert_str_eq(tenant_name_in(&cgroups, "/user").text, "user");
}

TEST(patterns_match_name_text_and_path)
{
	const struct tenant_name name = { .name = "shop", .engine = "podman", .text = "shop (podman)" };

	ck_assert(tenant_matches("shop", &name, "/a/b"));
	ck_assert(tenant_matches("sh*", &name, "/a/b"));
	ck_assert(tenant_matches("shop (podman)", &name, "/a/b"));
	ck_assert(tenant_matches("/a/*", &name, "/a/b"));
	ck_assert(!tenant_matches("bank", &name, "/a/b"));
}
