/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "client/userevctl/show/tenant_name.h"

#include <stdio.h>

#include "tests/suite.h"

#define ID	  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define UID	  "3f2a1b4c-89ab-4cde-8f01-23456789abcd"
#define SLICE_UID "3f2a1b4c_89ab_4cde_8f01_23456789abcd"
#define HASH	  "d4c74594d41d8cd98f00b204e9800998"

static void expect(const char *path, const char *expected)
{
	struct tenant_name name = tenant_name(path, strlen(path));

	ck_assert_msg(strcmp(name.text, expected) == 0, "%s: '%s' instead of '%s'", path, name.text, expected);
}

TEST(dockers_containers_are_named_alike_with_both_drivers)
{
	expect("/docker/" ID, "docker-0123456789ab");
	expect("/system.slice/docker-" ID ".scope", "docker-0123456789ab");
	expect("/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" ID ".scope", "docker-0123456789ab");
	expect("/ecs.slice/ecs-task.slice/docker-" ID ".scope", "docker-0123456789ab");
	expect("/kind/docker/" ID, "docker-0123456789ab");
}
END_TEST

TEST(kubernetes_containers_are_named_by_what_runs_them)
{
	expect("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" SLICE_UID ".slice/cri-containerd-" ID
	       ".scope",
	       "containerd-0123456789ab");
	expect("/kubepods.slice/kubepods-pod" SLICE_UID ".slice/crio-" ID ".scope", "crio-0123456789ab");
	expect("/kubepods/burstable/pod" UID "/crio-" ID, "crio-0123456789ab");
	expect("/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" SLICE_UID ".slice/docker-" ID
	       ".scope",
	       "docker-0123456789ab");
	expect("/system.slice/containerd.service/kubepods-burstable-pod" SLICE_UID ".slice:cri-containerd:" ID,
	       "containerd-0123456789ab");
}
END_TEST

TEST(where_nothing_says_what_runs_a_container_it_is_just_one)
{
	expect("/kubepods/burstable/pod" UID "/" ID, "container-0123456789ab");
	expect("/kubepods/pod" HASH "/" ID, "container-0123456789ab");
	expect("/somewhere/" ID, "container-0123456789ab");
}
END_TEST

TEST(a_pod_has_the_beginning_of_its_uid_as_kubectl_writes_it)
{
	expect("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" SLICE_UID ".slice",
	       "pod-3f2a1b4c-89ab");
	expect("/kubepods/burstable/pod" UID, "pod-3f2a1b4c-89ab");
	expect("/kubepods/pod" UID, "pod-3f2a1b4c-89ab");
	expect("/kubepods.slice/kubepods-pod" HASH ".slice", "pod-d4c74594d41d");
	expect("/kubepods.slice/kubepods-burstable.slice", "kubepods-burstable.slice");
}
END_TEST

TEST(podmans_containers_are_named_by_podman_and_not_by_the_cgroup_inside)
{
	expect("/machine.slice/libpod-" ID ".scope", "podman-0123456789ab");
	expect("/machine.slice/libpod-" ID ".scope/container", "podman-0123456789ab");
	expect("/libpod_parent/libpod-" ID, "podman-0123456789ab");
	expect("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope", "podman-0123456789ab");
	expect("/machine.slice/libpod-conmon-" ID ".scope", "libpod-conmon-0123456789ab");
}
END_TEST

TEST(machines_have_the_names_of_machinectl)
{
	expect("/machine.slice/machine-web.scope", "machine-web");
	expect("/machine.slice/machine-debian\\x2d12.scope", "machine-debian-12");
	expect("/machine.slice/machine-qemu\\x2d1\\x2dwin.scope/libvirt", "machine-qemu-1-win");
	expect("/machine.slice/systemd-nspawn@web.service", "machine-web");
	expect("/machine.slice/systemd-nspawn@web.service/payload", "machine-web");
}
END_TEST

TEST(lxc_containers_have_theirs_in_all_layouts)
{
	expect("/lxc.payload.web", "lxc-web");
	expect("/lxc.payload.web/system.slice/nginx.service", "lxc-web");
	expect("/lxc.payload/web", "lxc-web");
	expect("/lxc/web", "lxc-web");
	expect("/lxc.monitor.web", "lxc.monitor.web");
}
END_TEST

TEST(a_unit_is_called_what_systemctl_calls_it)
{
	expect("/system.slice/cron.service", "cron.service");
	expect("/system.slice/system-getty.slice/getty@tty1.service", "getty@tty1.service");
	expect("/system.slice/dev\\x2dhugepages.service", "dev-hugepages.service");
	expect("/system.slice/cron.service/job", "cron.service");
	expect("/user.slice/user-1000.slice/session-3.scope", "session-3.scope");
	expect("/system.slice", "system.slice");
	expect("/init.scope", "init.scope");
}
END_TEST

TEST(a_user_is_one_whether_the_slice_or_the_manager_is_the_tenant)
{
	expect("/user.slice/user-1000.slice", "user-1000");
	expect("/user.slice/user-1000.slice/user@1000.service", "user-1000");
	expect("/user.slice/user-1000.slice/user@1000.service/app.slice", "user-1000");
	expect("/user.slice/user-1000.slice/user@1000.service/app.slice/shell.service", "shell.service");
}
END_TEST

TEST(a_container_that_makes_units_inside_stays_the_container)
{
	expect("/system.slice/docker-" ID ".scope/system.slice/cron.service", "docker-0123456789ab");
	expect("/docker/" ID "/init", "docker-0123456789ab");
}
END_TEST

TEST(what_only_looks_like_an_id_or_a_unit_is_left_as_it_is)
{
	expect("/demo/shop", "shop");
	expect("/demo/shop/", "shop");
	expect("/docker/cafe", "cafe");
	expect("/docker/0123456789abcdef0123456789abcde", "0123456789abcdef0123456789abcde");
	expect("/x" ID, "x" ID);
	expect("/x" ID ".scope", "x" ID ".scope");
	expect("/my-pod" UID "x", "my-pod" UID "x");
	expect("/my-podcast", "my-podcast");
	expect("/.service", ".service");
	expect("/.scope", ".scope");
	expect("/machine-.scope", "machine-.scope");
	expect("/user-.slice", "user-.slice");
	expect("/lxc.payload.", "lxc.payload.");
	expect("/pod", "pod");
}
END_TEST

TEST(escapes_that_are_none_are_left_and_none_makes_a_nul)
{
	expect("/a\\x2", "a\\x2");
	expect("/a\\x2g", "a\\x2g");
	expect("/a\\x", "a\\x");
	expect("/a\\", "a\\");
	expect("/a\\x00b", "a\\x00b");
	expect("/a\\x2Db\\x2d", "a-b-");
	expect("/\\x2f", "/");
}
END_TEST

TEST(the_root_and_nothing_at_all_have_a_name_or_none)
{
	expect("/", "/");
	expect("//", "//");
	expect("", "");
	ck_assert_str_eq(tenant_name(NULL, 0).text, "");
}
END_TEST

TEST(a_program_that_is_a_tenant_is_called_as_holders_are)
{
	expect("process:12:shop", "shop-12");
	expect("process:12:a/b:c", "a/b:c-12");
	expect("process:12:", "-12");
	expect("process:12", "process:12");
}
END_TEST

TEST(the_longest_component_is_not_cut)
{
	char path[300], longest[256];

	memset(longest, 'x', 255);
	longest[255] = '\0';
	snprintf(path, sizeof(path), "/lxc.payload/%s", longest);
	ck_assert_uint_eq(strlen(tenant_name(path, strlen(path)).text), strlen("lxc-") + 255);
}
END_TEST

TEST(a_path_need_not_be_terminated)
{
	ck_assert_str_eq(tenant_name("/system.slice/cron.service.more", strlen("/system.slice/cron.service")).text,
			 "cron.service");
}
END_TEST

SUITE("tenant_name", dockers_containers_are_named_alike_with_both_drivers,
      kubernetes_containers_are_named_by_what_runs_them, where_nothing_says_what_runs_a_container_it_is_just_one,
      a_pod_has_the_beginning_of_its_uid_as_kubectl_writes_it,
      podmans_containers_are_named_by_podman_and_not_by_the_cgroup_inside, machines_have_the_names_of_machinectl,
      lxc_containers_have_theirs_in_all_layouts, a_unit_is_called_what_systemctl_calls_it,
      a_user_is_one_whether_the_slice_or_the_manager_is_the_tenant,
      a_container_that_makes_units_inside_stays_the_container, what_only_looks_like_an_id_or_a_unit_is_left_as_it_is,
      escapes_that_are_none_are_left_and_none_makes_a_nul, the_root_and_nothing_at_all_have_a_name_or_none,
      a_program_that_is_a_tenant_is_called_as_holders_are, the_longest_component_is_not_cut,
      a_path_need_not_be_terminated)
