/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "client/userevctl/show/tenant_name.h"

#include <stdio.h>

#include "daemon/identity/cgroup.h"
#include "tests/suite.h"

#define ID	  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define UID	  "3f2a1b4c-89ab-4cde-8f01-23456789abcd"
#define SLICE_UID "3f2a1b4c_89ab_4cde_8f01_23456789abcd"
#define HASH	  "d4c74594d41d8cd98f00b204e9800998"

TEST(names_follow_from_paths)
{
	static const struct {
		const char *path, *name;
	} cases[] = {
		/* docker, with both cgroup drivers. */
		{ "/docker/" ID, "0123456789ab (docker)" },
		{ "/system.slice/docker-" ID ".scope", "0123456789ab (docker)" },
		{ "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" ID ".scope",
		  "0123456789ab (docker)" },
		{ "/kind/docker/" ID, "0123456789ab (docker)" },
		/* Containers of Kubernetes have the name of their engine. */
		{ "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" SLICE_UID
		  ".slice/cri-containerd-" ID ".scope",
		  "0123456789ab (containerd)" },
		{ "/kubepods.slice/kubepods-pod" SLICE_UID ".slice/crio-" ID ".scope", "0123456789ab (crio)" },
		{ "/kubepods/burstable/pod" UID "/crio-" ID, "0123456789ab (crio)" },
		{ "/system.slice/containerd.service/kubepods-burstable-pod" SLICE_UID ".slice:cri-containerd:" ID,
		  "0123456789ab (containerd)" },
		/* The path does not name the engine. */
		{ "/kubepods/burstable/pod" UID "/" ID, "0123456789ab (container)" },
		{ "/somewhere/" ID, "0123456789ab (container)" },
		/* A pod has the beginning of its UID, as kubectl shows it. */
		{ "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" SLICE_UID ".slice",
		  "3f2a1b4c-89ab (pod)" },
		{ "/kubepods/burstable/pod" UID, "3f2a1b4c-89ab (pod)" },
		{ "/kubepods.slice/kubepods-pod" HASH ".slice", "d4c74594d41d (pod)" },
		{ "/kubepods.slice/kubepods-burstable.slice", "kubepods-burstable.slice" },
		/* podman, not the cgroup inside the container. */
		{ "/machine.slice/libpod-" ID ".scope", "0123456789ab (podman)" },
		{ "/machine.slice/libpod-" ID ".scope/container", "0123456789ab (podman)" },
		{ "/libpod_parent/libpod-" ID, "0123456789ab (podman)" },
		{ "/machine.slice/libpod-conmon-" ID ".scope", "0123456789ab (libpod-conmon)" },
		/* As machinectl names them. */
		{ "/machine.slice/machine-web.scope", "web (machine)" },
		{ "/machine.slice/machine-debian\\x2d12.scope", "debian-12 (machine)" },
		{ "/machine.slice/machine-qemu\\x2d1\\x2dwin.scope/libvirt", "qemu-1-win (machine)" },
		{ "/machine.slice/systemd-nspawn@web.service", "web (machine)" },
		/* LXC, in all layouts. */
		{ "/lxc.payload.web", "web (lxc)" },
		{ "/lxc.payload.web/system.slice/nginx.service", "web (lxc)" },
		{ "/lxc.payload/web", "web (lxc)" },
		{ "/lxc/web", "web (lxc)" },
		{ "/lxc.monitor.web", "lxc.monitor.web" },
		/* As systemctl names them. */
		{ "/system.slice/cron.service", "cron.service" },
		{ "/system.slice/system-getty.slice/getty@tty1.service", "getty@tty1.service" },
		{ "/system.slice/cron.service/job", "cron.service" },
		{ "/user.slice/user-1000.slice/session-3.scope", "session-3.scope" },
		{ "/system.slice", "system.slice" },
		/* The slice of a user, and its manager. */
		{ "/user.slice/user-1000.slice", "user-1000" },
		{ "/user.slice/user-1000.slice/user@1000.service", "user-1000" },
		{ "/user.slice/user-1000.slice/user@1000.service/app.slice", "user-1000" },
		{ "/user.slice/user-1000.slice/user@1000.service/app.slice/shell.service", "shell.service" },
		/* Units inside a container. */
		{ "/system.slice/docker-" ID ".scope/system.slice/cron.service", "0123456789ab (docker)" },
		/* Texts that look like an ID, a pod or a unit. */
		{ "/demo/shop", "shop" },
		{ "/demo/shop/", "shop" },
		{ "/docker/cafe", "cafe" },
		{ "/docker/0123456789abcdef0123456789abcde", "0123456789abcdef0123456789abcde" },
		{ "/x" ID, "x" ID },
		{ "/x" ID ".scope", "x" ID ".scope" },
		{ "/my-pod" UID "x", "my-pod" UID "x" },
		{ "/my-podcast", "my-podcast" },
		{ "/.service", ".service" },
		{ "/machine-.scope", "machine-.scope" },
		{ "/user-.slice", "user-.slice" },
		{ "/lxc.payload.", "lxc.payload." },
		{ "/pod", "pod" },
		/* Escapes of systemd; none makes a NUL. */
		{ "/a\\x2", "a\\x2" },
		{ "/a\\x2g", "a\\x2g" },
		{ "/a\\x", "a\\x" },
		{ "/a\\", "a\\" },
		{ "/a\\x00b", "a\\x00b" },
		{ "/a\\x2Db\\x2d", "a-b-" },
		{ "/\\x2f", "/" },
		/* With --tenants=process. */
		{ "process:12:shop", "shop-12" },
		{ "process:12:a/b:c", "a/b:c-12" },
		{ "process:12:", "-12" },
		{ "process:12", "process:12" },
		/* Without a component. */
		{ "/", "/" },
		{ "//", "/" },
		{ "", "" },
	};

	static const struct cgroups none;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct tenant_name name = tenant_name_in(&none, cases[i].path);

		ck_assert_msg(streq(name.text, cases[i].name), "%s: '%s'", cases[i].path, name.text);
	}
}

TEST(the_longest_component_is_not_cut)
{
	char path[300], longest[256];

	memset(longest, 'x', 255);
	longest[255] = '\0';
	snprintf(path, sizeof(path), "/lxc.payload/%s", longest);
	ck_assert_uint_eq(strlen(tenant_name(path)->text), 255 + strlen(" (lxc)"));
}
