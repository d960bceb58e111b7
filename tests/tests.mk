# SPDX-License-Identifier: GPL-2.0-or-later
#
# Tests, benchmarks and fuzzers: how they are built, and their order. CI runs `make test`.

TEST_PACKAGES := $(DEB_PACKAGES) babeltrace2 ccache check binutils gcc-12-multilib g++ clang libclang-rt-dev clang-format clang-tidy cppcheck llvm \
	golang-go golang-opentelemetry-otel-dev $(JAVA_PACKAGES) liblttng-ust-dev mandoc musl-tools $(NODE_PACKAGES) prometheus python3 python3-prometheus-client procps $(RUST_PACKAGES) systemd util-linux jq lintian python3-seccomp python3-yaml systemtap-sdt-dev valgrind

# Of other machines: compilers, and an emulator of programs; for check-arm64 an emulator of the whole machine.
MACHINE_PACKAGES := gcc-aarch64-linux-gnu gcc-s390x-linux-gnu qemu-user
ARM64_PACKAGES := qemu-system-arm libc6-dev-arm64-cross

# Alternatives to userevd, and gnuplot.
BENCH_PACKAGES := lttng-tools dbus-broker gnuplot-nox

KERNEL_PACKAGES := gcc make bc bison flex kmod xz-utils libc6-dev libelf-dev libssl-dev dwarves linux-source-6.12 linux-source-6.1
VM_PACKAGES := qemu-system-x86 bpftrace cpio e2fsprogs gcc libc6-dev util-linux trace-cmd linux-perf libbpf-dev bpftool clang llvm

# Engines of containers, in guests: those of each run, and the others.
CONTAINER_PACKAGES := podman crun golang-github-containers-common slirp4netns uidmap containerd runc systemd-container libpam-systemd dbus dbus-user-session
ENGINE_PACKAGES := apparmor docker.io docker-compose iptables lxc catatonit containernetworking-plugins python3-grpcio $(IMAGE_PACKAGES)

# --- lists: a source named test_… is a test and needs no line here ---

# The programs of these sources, and of the sources test_… of a folder.
programs = $(addprefix $(B)/tests/,$(basename $(notdir $(1))))
tests_in = $(call programs,$(wildcard $(1:%=%/test_*.c)))
scripts_in = $(wildcard $(foreach folder,$(1),$(folder)/test_*.sh $(folder)/test_*.py))

UNIT_FOLDERS := $(shell find tests/unit -type d)
UNIT_SOURCES := $(wildcard $(UNIT_FOLDERS:%=%/test_*.c))
UNIT_TESTS := $(call programs,$(UNIT_SOURCES))
INTEGRATION_TESTS := $(filter-out %/test_confined,$(call tests_in,tests/integration))
KERNEL_TESTS := $(call tests_in,tests/kernel)
GUARD_TESTS := $(call tests_in,tests/guard)
NATIVE_PROGRAMS := $(addprefix $(B)/tests/native_,speaker speaker_musl speaker_cc speaker_rs speaker_go event_pipe)
SOAK_TEST := $(B)/tests/test_soak
# A program for each question. run.py knows which of them need a guest.
BENCHES := $(call programs,$(wildcard tests/bench/bench_*.c tests/bench/sample_*.c))
# Ratios of some of them, counted in instructions, are a test.
SPEED_BENCHES := $(addprefix $(B)/tests/bench_,admission macro off record register shared start)
SPEED_TESTS := tests/bench/test_speed.sh
FUZZERS := $(patsubst tests/fuzz/%.c,$(B)/%,$(wildcard tests/fuzz/fuzz_*.c))
TESTS := $(UNIT_TESTS) $(INTEGRATION_TESTS)

# The daemon's answer does not depend on the kernel, so one guest is enough: attacks of one tenant; rules, and requests byte by byte.
EXHAUSTION_TESTS := $(call programs,tests/integration/test_bad_days.c $(filter-out %_kernel.c,$(wildcard tests/integration/test_exhaustion*.c)))
ONE_GUEST_TESTS := $(EXHAUSTION_TESTS) $(addprefix $(B)/tests/,test_connecting test_hostile test_limits test_policy_events test_raw test_reload test_rules)
# These need a guest, or take too long for each run.
NOT_HERE := %/test_faults.py %/test_faults_pair.py %/test_counting.sh %/test_filters.sh %/test_interoperation.sh %/test_no_cgroups.sh %/test_recording_tracefs.sh %/test_sessions.sh %/test_tracing.sh
SCRIPT_TESTS := $(filter-out $(NOT_HERE),$(call scripts_in,tests/unit tests/integration)) tests/systemd/test_seccomp.py tests/systemd/test_monitoring.py
# Daemon and keeper under the seccomp filters of their units: a call that is not allowed kills them.
CONFINED := $(B)/confined
confined_copies = $(1:$(B)/tests/%=$(CONFINED)/tests/%)
CONFINED_TESTS := $(CONFINED)/tests/test_confined $(call confined_copies,$(INTEGRATION_TESTS))
# Attacks of one tenant take long in a guest; what the kernel decides about fds in flight is tried there.
CONFINED_GUEST_TESTS := $(filter-out $(call confined_copies,$(filter-out %_fds,$(EXHAUSTION_TESTS))),$(CONFINED_TESTS))
CONFINED_TOOLS := $(addprefix $(CONFINED)/,userevctl libuserev.so.$(SOVERSION) $(addprefix tests/,emitter direct restart_load userevd-next static_program \
	static_library.so static_plugin.so))
# For packages that were built before.
DEB_TESTS := tests/systemd/test_deb.sh

# Tests that qemu-user can run, for machines of another kind and of the other byte order. (It has no seccomp filters, which stand in for the
# guard, and no timestamps of sockets, which the embedded backend reads; it does not say that a packet is truncated, and has no locales. Some
# tests have bytes of a little-endian machine.) In each run those of the library and of bytes; check-machines has all.
MACHINES := arm64 s390x
on_machine = $(patsubst %,$(B)/$(1)/tests/%,$(basename $(notdir $(2))))
EMULATED := $(filter-out %/test_processes.c %/test_transport.c,$(filter tests/unit/protocol/% tests/unit/client/library/%,$(UNIT_SOURCES))) \
	$(wildcard tests/unit/kernel/test_bits.c tests/unit/kernel/test_page_file.c tests/unit/client/userevctl/tracing/test_ring_page.c)
EMULATED_LONG := $(filter-out $(EMULATED) %/test_output.c %/test_recording.c %/test_message.c,\
	$(filter tests/unit/client/userevctl/% tests/unit/daemon/policy/% tests/unit/kernel/rpc/%,$(UNIT_SOURCES))) \
	$(wildcard tests/unit/daemon/quota/test_quota.c)
EMULATED_TESTS = $(foreach machine,$(MACHINES),--machine $(machine) $(B)/$(machine) $(call on_machine,$(machine),$(1)))
MACHINE_TESTS := $(call scripts_in,tests/machines)

# Programs that tests start.
HELPERS := $(addprefix $(B)/tests/,driver emitter direct faults.so hammer kill_at restart_load userevd-next)

# Tests that run again in guests, one for each kernel, and one with systemd as its first process.
KERNELS := 6.12 6.1
KERNEL ?= 6.12
GUEST_TESTS := $(addprefix $(B)/tests/,test_embedded test_embedded_records test_transport test_disposal test_page) \
	$(addprefix tests/integration/,test_conformance.py test_delete.sh test_faults_pair.py test_tracing.sh)
# The same commands of userevctl on each kernel, by the same files of tracefs.
TRACING_TESTS := $(addprefix tests/integration/,test_counting.sh test_filters.sh test_interoperation.sh test_recording_tracefs.sh test_sessions.sh test_stats.sh)
# The tutorial continues in the guest of `make vm`. (Before 6.4 a histogram can't use strings of user_events.)
# Pages and data files are the same for a client on each kernel.
# (Programs register by themselves from 6.4 on. One of these tests changes names on one processor while another one registers them.)
NATIVE_TESTS := $(addprefix $(B)/tests/,test_native test_native_tenants)
GUEST_TESTS_6_12 = $(GUEST_TESTS) $(B)/tests/test_native_tenants $(addprefix tests/integration/,test_name.sh test_python.py test_tutorial.sh)
GUEST_TESTS_6_1 = $(GUEST_TESTS) $(filter-out $(ONE_GUEST_TESTS) $(LATER_ON_6_1),$(INTEGRATION_TESTS)) $(filter-out $(NATIVE_TESTS),$(GUARD_TESTS))
# On Linux 6.1 these are a part of check-vm.
LATER_ON_6_1 := tests/integration/test_doctor.sh tests/integration/test_examples.sh $(addprefix $(B)/tests/,test_fd_limits test_identity test_static)
# All but attacks, rules and single bytes, which are the same on each machine, and programs for 32 bits.
ARM64_TESTS = $(addprefix tests/integration/,test_conformance.py test_tracing.sh) $(filter-out $(ONE_GUEST_TESTS),$(INTEGRATION_TESTS)) $(GUARD_TESTS) \
	$(filter-out %/test_narrow,$(KERNEL_TESTS))
# One processor writes records while another enables events.
TWO_PROCESSOR_TESTS := $(KERNEL_TESTS) tests/integration/test_quiescence.py
EARLY_TESTS := tests/systemd/test_early_boot.sh
OLD_TESTS := tests/systemd/test_old_cgroups.sh
BARE_TESTS := tests/integration/test_no_cgroups.sh
SYSTEMD_TESTS := tests/systemd/test_systemd.sh tests/systemd/test_restart.sh
CONTAINER_TESTS := tests/containers/test_containers.sh
IMAGE_TESTS := tests/containers/test_image.sh tests/containers/test_daemonset.sh
UPGRADE_TESTS := tests/containers/test_upgrade.sh
OLD_CONTAINER_TESTS := tests/containers/test_cgroup_versions.sh
PRIVILEGE_TESTS := tests/containers/test_privileges.sh
APPARMOR_TESTS := tests/containers/test_apparmor.sh
# Each call of dpkg takes half a minute in a guest: a target of its own.
PACKAGE_TESTS := tests/systemd/test_packages.sh
# These run beside the tests of this machine, which wait a lot; none takes much longer than the others. The short ones follow.
LONG_GUESTS = --guest 6.12+systemd $(B) $(SYSTEMD_TESTS) --guest 6.1 $(B) $(GUEST_TESTS_6_1) --guest 6.12 $(B) $(GUEST_TESTS_6_12) --guest 6.12+tracing $(B) $(TRACING_TESTS) \
	--guest 6.12+confined $(B) $(CONFINED_GUEST_TESTS) $(filter-out $(NATIVE_TESTS),$(GUARD_TESTS)) --guest 6.12+containers $(B) $(CONTAINER_TESTS)
SHORT_GUESTS = --guest 6.12+two $(B) $(TWO_PROCESSOR_TESTS) $(B)/tests/test_native --guest 6.1+two $(B) $(KERNEL_TESTS) --guest 6.12+early $(B) $(EARLY_TESTS) \
	--guest 6.12+legacy $(B) $(OLD_TESTS) --guest 6.12+bare $(B) $(BARE_TESTS)

ASAN := $(B)/asan
ASAN_TESTS := $(TESTS:$(B)/%=$(ASAN)/%) tests/integration/test_userevctl.sh tests/integration/test_policy.sh \
	tests/integration/test_metrics.py tests/integration/test_top.sh tests/integration/test_faults.py
# Code with threads: the library, a thread that closes files and a thread that reads the policy.
TSAN := $(B)/tsan
TSAN_TESTS := $(addprefix $(TSAN)/tests/,test_fds test_module test_reconnect test_watch test_disposal test_library test_reload test_static)
BUILD_ASAN = $(BUILD) B=$(ASAN) SANITIZE=address,undefined

.PHONY: analyze asan bench bench-dependencies build-tests check check-bypass check-containers check-languages check-packages check-restart check-speed check-vm confined coverage exhaustion faults \
	faults-daemon faults-keeper format fuzz fuzz-coverage fuzzers installed kernel-tests kernels mutants npm races soak test test-dependencies tidy tsan vm vm-dependencies weight \
	$(KERNELS:%=kernel-%)

# --- targets ---

# Objects are kept beside the kernels, for all checkouts.
CACHED = CC='ccache $(CC)'
test: export CCACHE_DIR ?= $(or $(USEREVD_CACHE),$(HOME)/.cache/userevd)/ccache
test: export CCACHE_NOHASHDIR = 1
# All in one run, so that one sum covers everything.
## make test            All tests of CI: tidy, unit and integration tests, also under sanitizers and in virtual machines.
test: test-dependencies kernels
	$(Q)$(BUILD) $(CACHED) tidy build-tests confined $(SPEED_BENCHES)
	$(Q)$(BUILD_ASAN) $(CACHED) build-tests
	$(Q)$(BUILD) $(CACHED) packages fuzzers machines
	$(Q)tests/run-tests.sh --left-out 'sessions, histograms, statistics, recordings, examples, doctor, identity, limits of fds and declared events on Linux 6.1 (make check-vm); a million changed names (make check-bypass); a hundred kills of daemon and keeper below native programs (make check-restart); a guest of arm64, and more tests of each machine (make check-machines); the clients for Go, Java, Node and Rust in guests, and in a container (make check-languages)' \
		$(LONG_GUESTS) $(call EMULATED_TESTS,$(EMULATED)) \
		--beside $(ASAN) $(ASAN_TESTS) --beside $(CONFINED) $(filter-out $(call confined_copies,$(EXHAUSTION_TESTS)),$(CONFINED_TESTS)) \
		--beside $(B) $(SPEED_TESTS) $(SOAK_TEST) --beside $(B) $(DEB_TESTS) tests/fuzz/test_fuzz.sh tests/vm/test_bed.sh \
		--beside $(B) $(filter %.sh,$(SCRIPT_TESTS)) -- $(B) $(UNIT_TESTS) $(filter-out %.sh,$(SCRIPT_TESTS)) $(MACHINE_TESTS) $(SHORT_GUESTS)

## make check           Unit and integration tests on this machine.
check: test-dependencies
	$(Q)$(BUILD) build-tests
	$(Q)tests/run-tests.sh $(B) $(TESTS) $(SCRIPT_TESTS) $(SOAK_TEST)

## make asan            The same under AddressSanitizer and UndefinedBehaviorSanitizer.
asan: test-dependencies
	$(Q)$(BUILD_ASAN) build-tests
	$(Q)tests/run-tests.sh $(ASAN) $(ASAN_TESTS)

## make tsan            Tests of code with threads, under ThreadSanitizer.
tsan: test-dependencies
	$(Q)$(BUILD) B=$(TSAN) SANITIZE=thread build $(TSAN_TESTS)
	$(Q)tests/run-tests.sh $(TSAN) $(TSAN_TESTS)

## make check-vm        Tests in virtual machines whose kernels have user_events, Linux 6.12 and 6.1.
check-vm: test-dependencies kernels
	$(Q)$(BUILD) build-tests confined packages machine-musl
	$(Q)KILL_STEP=1 tests/run-tests.sh $(LONG_GUESTS) --guest 6.1+tracing $(B) $(TRACING_TESTS) tests/integration/test_quiescence.py $(LATER_ON_6_1) \
		-- $(B) $(DEB_TESTS) tests/vm/test_bed.sh $(SHORT_GUESTS)

# The claims of SECURITY.md about data files and pages.
BYPASS_TESTS = $(GUARD_TESTS) $(B)/tests/test_page_access $(B)/tests/test_page_attacks
## make check-bypass    All known ways around the guard and into a status page.
check-bypass: test-dependencies kernels
	$(Q)$(BUILD) build-tests
	$(Q)FLIPS=1000000 tests/run-tests.sh $(B) $(B)/tests/test_page_attacks tests/systemd/test_seccomp.py \
		--guest 6.12 $(B) $(BYPASS_TESTS) --guest 6.1 $(B) $(BYPASS_TESTS) --guest 6.12+two $(B) $(B)/tests/test_native
	$(Q)cd $(B)/logs && grep -E '^[0-9]+ attempts ' test_page_attacks.log linux-6.12/*.log linux-6.1/*.log

LANGUAGE_TESTS := $(addprefix tests/unit/test_,go.sh java.sh node.sh rust.sh)
## make check-languages  The clients for Go, Java, Node and Rust: their own tests, conformance on each backend, and one container with all.
check-languages: export LANGUAGES = Go,Java,Node,Rust
check-languages: test-dependencies kernels
	$(Q)$(BUILD) build-tests
	$(Q)AT_ONCE=$$(nproc) tests/run-tests.sh $(KERNELS:%=--guest % $(B) tests/integration/test_conformance.py) \
		--guest 6.12+containers $(B) tests/containers/test_languages.sh -- $(B) $(LANGUAGE_TESTS) tests/integration/test_conformance.py

## make check-restart   Kill daemon and keeper under 200 programs. Takes about an hour.
check-restart: test-dependencies kernel-6.12
	$(Q)$(BUILD) build-tests
	$(Q)CLIENTS=200 DAEMON_KILLS=100 KEEPER_KILLS=20 NATIVE_KILLS=100 RESTART_STEP=1 TEST_LIMIT=7200 GUEST_LIMIT=7500 CK_TIMEOUT_MULTIPLIER=20 \
		tests/run-tests.sh $(B) --guest 6.12+systemd $(B) tests/systemd/test_restart.sh --guest 6.12 $(B) $(B)/tests/test_restart $(B)/tests/test_native_tenants

# Prints the table of SECURITY.md. Its rows that need user_events come from guests.
## make exhaustion      Effects of one tenant on another, as the table of SECURITY.md. Takes about an hour.
exhaustion: test-dependencies kernels
	$(Q)$(BUILD) build-tests
	$(Q)$(BUILD_ASAN) build-tests
	$(Q)FULL=1 LOGS=$(B)/logs/exhaustion TEST_LIMIT=7200 CK_TIMEOUT_MULTIPLIER=20 \
		tests/run-tests.sh $(B) $(EXHAUSTION_TESTS) -- $(ASAN) $(ASAN)/tests/test_raw \
		$(KERNELS:%=--guest % $(B) $(B)/tests/test_exhaustion_kernel)
	@echo
	@echo '| attack of the tenant | memory growth, KiB | requests of the neighbour granted, refused | median latency alone → beside it, µs | 99th percentile, µs | maximum, ms |'
	@echo '|---|---|---|---|---|---|'
	$(Q)cd $(B)/logs/exhaustion && sed -n '/^|/p' $(EXHAUSTION_TESTS:$(B)/tests/%=%.log) test_raw.log $(KERNELS:%=../linux-%/test_exhaustion_kernel.log)

## make check-packages  Install, upgrade and purge the Debian packages in a virtual machine.
check-packages: test-dependencies kernel-6.12
	$(Q)$(BUILD) build-tests packages
	$(Q)tests/run-tests.sh $(B) $(DEB_TESTS) --guest 6.12+systemd $(B) $(PACKAGE_TESTS)

# Emulated programs, and a guest whose kernel, files and programs are those of arm64.
## make check-machines  The library on arm64, on a big-endian machine and with musl; make check-arm64 for a whole guest of arm64.
check-machines: check-arm64
	$(Q)$(BUILD) build machines EMULATED='$(EMULATED) $(EMULATED_LONG)'
	$(Q)tests/run-tests.sh $(B) $(MACHINE_TESTS) $(call EMULATED_TESTS,$(EMULATED) $(EMULATED_LONG))

check-arm64: test-dependencies
	$(call install_packages,$(ARM64_PACKAGES) $(VM_PACKAGES) $(KERNEL_PACKAGES))
	$(Q)tests/vm/build-kernel.sh 6.12 arm64 >/dev/null
	$(Q)$(BUILD) machine-arm64 MACHINE_TARGETS='$(patsubst $(B)/%,%,$(PROGRAMS) $(LIBRARIES) $(EXAMPLES) $(B)/userevd-guard $(HELPERS) $(filter $(B)/%,$(ARM64_TESTS)))'
	$(Q)GUEST_LIMIT=5400 tests/run-tests.sh --guest 6.12+arm64 $(B)/arm64 $(ARM64_TESTS:$(B)/%=$(B)/arm64/%)

machines: $(MACHINES:%=machine-%) machine-musl
MACHINE_TARGETS = libuserev.so.$(SOVERSION) tests/driver
machine-arm64 machine-s390x: MACHINE_TARGETS += $(patsubst %,tests/%,$(basename $(notdir $(EMULATED))))
machine-musl: MACHINE_TARGETS += examples/requests
machine-%:
	+$(Q)CCACHE='$(filter ccache,$(CC))' tests/machines/build.sh $(B)/$* $* $(MACHINE_TARGETS)

## make check-containers  Programs in containers of each engine, and the image of make image, in virtual machines.
check-containers: test-dependencies kernels
	$(call install_packages,$(ENGINE_PACKAGES))
	$(Q)$(BUILD) build-tests machine-musl $(if $(ENGINES),packages,images)
	$(Q)AT_ONCE=$$(nproc) ENGINES='$(or $(ENGINES),all)' TEST_LIMIT=3600 GUEST_LIMIT=5400 tests/run-tests.sh $(B) \
		$(KERNELS:%=--guest %+containers $(B) $(CONTAINER_TESTS) $(if $(ENGINES),,tests/integration/test_name.sh)) \
		--guest 6.12+packages $(B) $(UPGRADE_TESTS) \
		$(if $(ENGINES),,$(KERNELS:%=--guest %+mounts $(B) tests/containers/test_mounts.sh) \
			--guest 6.12+image $(B) $(IMAGE_TESTS) --guest 6.12+privileges $(B) $(PRIVILEGE_TESTS) \
			--guest 6.12+apparmor $(B) $(APPARMOR_TESTS) \
			--guest 6.12+hybrid $(B) $(OLD_TESTS) $(OLD_CONTAINER_TESTS) --guest 6.12+legacy $(B) $(OLD_TESTS) $(OLD_CONTAINER_TESTS))

## make check-speed     Ratios of the broker's costs, counted in instructions, against tests/bench/limits.txt. RECORD=1 records them.
check-speed: test-dependencies measured-kernel-6.12
	$(Q)$(BUILD) build $(SPEED_BENCHES)
	$(Q)$(if $(RECORD),tests/bench/run.py --record,tests/run-tests.sh) $(B) $(if $(RECORD),,$(SPEED_TESTS))

# Its output is for readers, and best on an idle machine. QUICK=1 takes a few minutes instead of thirty; REPORT=1 writes the tables
# into tests/bench/REPORT.md; TIMEOUT_FACTOR=3 triples all timeouts.
## make bench           Cost beside every alternative. QUICK=1 takes a few minutes; REPORT=1 writes tests/bench/REPORT.md.
bench: test-dependencies bench-dependencies $(KERNELS:%=measured-kernel-%)
	$(Q)$(BUILD) build $(BENCHES)
	$(Q)tests/bench/run.py $(if $(REPORT),--report=tests/bench/REPORT.md) $(if $(QUICK),--quick) $(if $(TIMEOUT_FACTOR),--timeout-factor=$(TIMEOUT_FACTOR)) $(B)

bench-dependencies: vm-dependencies
	$(call install_packages,$(BENCH_PACKAGES))

## make vm              A shell in a virtual machine with the daemon running. KERNEL=6.1 for the older interface.
vm: dependencies vm-dependencies
	$(Q)$(BUILD) build
	$(Q)B=$(B) tests/vm/run-guest.sh --shell --limit=0 $(KERNEL) -- tests/vm/shell.sh

# Kept outside the checkout, for all checkouts. Built in parallel, since neither build keeps two cores busy to its end.
## make kernels         Build the kernels from Debian's sources, once; about half an hour.
kernels: vm-dependencies
	$(Q)$(BUILD) $(KERNELS:%=kernel-%) measured-kernel-$(KERNEL)

$(KERNELS:%=kernel-%): kernel-%:
	$(Q)tests/vm/build-kernel.sh $* >/dev/null

measured-kernel-%:
	$(Q)tests/vm/build-kernel.sh $* measured >/dev/null

test-dependencies:
	$(call install_packages,$(TEST_PACKAGES) $(MACHINE_PACKAGES))

vm-dependencies:
	$(call install_packages,$(KERNEL_PACKAGES) $(VM_PACKAGES) $(CONTAINER_PACKAGES))

# Each harness runs for that many seconds, beginning with its corpus; findings are left below $(B)/fuzz/.
## make fuzz            Run each fuzzer for SECONDS=60, or RUNS= executions.
fuzz: SECONDS ?= 60
fuzz: test-dependencies
	$(Q)$(BUILD) fuzzers
	$(Q)tests/fuzz/run.sh $(B)/fuzz $(SECONDS)

# Each call fails once, and userevctl is interrupted at each; or every EVERY-th.
EVERY ?= 1
## make faults          Let each call of the daemon fail once, and from then on. EVERY=100 tries each hundredth.
faults: test-dependencies
	$(Q)$(BUILD_ASAN) build $(ASAN)/tests/faults.so
	$(Q)B=$(ASAN) tests/faults/sweep.py --every=$(EVERY)
	$(Q)B=$(ASAN) tests/faults/interrupts.py --every=$(EVERY)

# The same for the daemon or the keeper of a pair, on a kernel: takes hours.
## make faults-daemon   The same for a daemon with a keeper, in a virtual machine; make faults-keeper for the keeper. Takes hours.
faults-daemon faults-keeper: faults-%: test-dependencies vm-dependencies
	$(Q)$(BUILD) build
	$(Q)$(BUILD_ASAN) build $(ASAN)/tests/faults.so
	$(Q)B=$(B) tests/vm/run-guest.sh --limit=0 $(KERNEL) -- env VICTIMS=$(ASAN) tests/faults/sweep.py --fail=$* --every=$(EVERY)

## make mutants         Put faults into a copy of the sources; the tests have to find them. ONLY=NAME for one, or a folder.
mutants: test-dependencies kernel-6.12
	$(Q)$(BUILD) build-tests
	$(Q)tests/mutants/mutants.py --build=$(B) $(ONLY:%=--only=%)

## make races           Programs come and go for SECONDS=60 while calls of the daemon are delayed.
races: test-dependencies
	$(Q)$(BUILD_ASAN) build $(ASAN)/tests/faults.so
	$(Q)B=$(ASAN) tests/faults/races.py $(SECONDS)

# Built with clang, which has other warnings.
BUILD_FUZZERS = $(BUILD) CC='$(filter ccache,$(CC)) clang' SANITIZE=address,undefined,fuzzer-no-link WARNINGS='-Wall -Wextra -Werror'
fuzzers:
	$(Q)$(BUILD_FUZZERS) B=$(B)/fuzz $(FUZZERS:$(B)/%=$(B)/fuzz/%)

COVERS := -fprofile-instr-generate -fcoverage-mapping
## make fuzz-coverage   Lines that the fuzzers' corpora reach.
fuzz-coverage: test-dependencies
	$(Q)$(BUILD_FUZZERS) B=$(B)/fuzz-coverage CFLAGS='-O1 -g $(COVERS)' LDFLAGS='$(COVERS)' $(FUZZERS:$(B)/%=$(B)/fuzz-coverage/%)
	$(Q)tests/fuzz/coverage.sh $(B)/fuzz-coverage

# On this machine, perhaps with the embedded backend; in a guest with KERNEL=. `make test` runs it for a minute.
SOAK_KERNEL := $(if $(filter command environment,$(firstword $(origin KERNEL))),$(KERNEL))
## make soak            Random programs, policies and restarts for SECONDS=120; nothing may grow. KERNEL=6.12 for a virtual machine.
soak: SECONDS ?= 120
soak: test-dependencies $(if $(SOAK_KERNEL),vm-dependencies)
	$(Q)$(BUILD) build $(SOAK_TEST)
	$(Q)B=$(B) tests/soak/soak.sh $(SECONDS) "$(SOAK_KERNEL)" $(SEED)

COVERED := $(B)/coverage
covered = $(1:$(B)/%=$(COVERED)/%)
# Programs that a compiler's options do not change, and in a guest those that say nothing new about a kernel.
COVERING_SCRIPTS := $(addprefix tests/integration/test_,userevctl.sh policy.sh last_policy.sh metrics.py top.sh doctor.sh conformance.py \
	recording.sh stats.sh name.sh)
COVERING_IN_GUEST = $(filter-out $(EXHAUSTION_TESTS),$(INTEGRATION_TESTS)) $(GUARD_TESTS)
COVERING_IN_TRACEFS := $(TRACING_TESTS) $(addprefix tests/integration/test_,tracing.sh delete.sh name.sh)
## make coverage        Line and branch coverage of unit and integration tests, here and in virtual machines.
coverage: test-dependencies kernels
	$(Q)$(BUILD) B=$(COVERED) COVERAGE=1 build-tests
	$(Q)rm -rf $(COVERED)/logs && find $(COVERED) -name '*.gcda' -delete
	# Programs of other users count, too. Otherwise they say that they cannot, as a part of their output.
	$(Q)chmod -R a+rwX $(COVERED)
	# A command that is killed at many of its calls takes hours in this build, and shows no other line.
	$(Q)umask 0 && COVERAGE=1 KILL_STEP=1000 GUEST_LIMIT=5400 TEST_LIMIT=3600 CK_TIMEOUT_MULTIPLIER=5 GCOV_ERROR_FILE=/dev/null tests/run-tests.sh --guest 6.12 $(COVERED) $(call covered,$(COVERING_IN_GUEST)) \
		--guest 6.12+tracing $(COVERED) $(COVERING_IN_TRACEFS) --guest 6.1 $(COVERED) $(call covered,$(COVERING_IN_GUEST)) tests/integration/test_tracing.sh \
		-- $(COVERED) $(call covered,$(TESTS)) $(COVERING_SCRIPTS)
	$(Q)tests/coverage.sh $(COVERED)

# Tests for guests have no sanitizers: they are about the kernel.
build-tests: build $(if $(SANITIZE)$(COVERAGE),,installed) $(B)/examples/tasks $(TESTS) $(HELPERS) \
	$(if $(SANITIZE),,$(GUARD_TESTS) $(KERNEL_TESTS) $(SOAK_TEST) $(NATIVE_PROGRAMS) $(B)/tests/driver_go $(B)/tests/driver_rust $(B)/tests/driver_java.jar $(LOGGING_JAR) $(NODE_PACKAGE))

# For guests with systemd: in a guest `make install` takes half a minute.
installed: build
	$(Q)rm -rf $(B)/installed
	$(Q)$(MAKE) --no-print-directory DEPENDENCIES=skip install PREFIX=/usr DESTDIR=$(abspath $(B))/installed

SOURCES = $(shell find protocol kernel daemon client tests -name '*.c')
HEADERS = $(shell find protocol kernel daemon client tests -name '*.h')

## make tidy            clang-format, clang-tidy, cppcheck and GCC's analyser.
tidy: test-dependencies
	@echo '  CHECK   layers, clang-format, clang-tidy, cppcheck, gcc -fanalyzer'
	$(Q)tests/layers.py
	$(Q)clang-format --dry-run -Werror $(SOURCES) $(HEADERS)
	$(Q)B=$(B) tests/tidy.sh $(filter-out %.bpf.c tests/bench/rival_lttng.c tests/bench/rival_usdt.c,$(SOURCES))
	$(Q)B=$(B) tests/analyze.sh

## make analyze         GCC's analyser alone.
analyze: test-dependencies
	@echo '  CHECK   gcc -fanalyzer'
	$(Q)B=$(B) tests/analyze.sh

## make weight          Lines of code for each folder, long functions and files, names that are used twice.
weight:
	$(Q)tests/weight.py

## make format          Apply clang-format.
format:
	$(Q)clang-format -i $(SOURCES) $(HEADERS)

# --- how tests, fuzzers and benchmarks are built ---

SUITE_OBJECTS := $(B)/tests/suite.o
FIXTURE_OBJECTS := $(addprefix $(B)/tests/integration/,cgroups.o fixture.o keeper.o kernel_events.o machine.o pair.o \
	programs.o raw.o samples.o scene.o silence.o tracer.o) \
	$(B)/kernel/probe.o $(B)/kernel/rpc/message.o $(PROTOCOL_OBJECTS)

$(B)/tests/%.o: EXTRA_CFLAGS = $(call pkg,--cflags,check libtracefs) -Wno-format-nonliteral

# The linker takes only the used objects of an archive.
ARCHIVES := $(addprefix $(B)/tests/,client.a daemon.a helpers.a keeper.a)
$(B)/tests/client.a: $(LIBRARY_OBJECTS) $(filter-out %/main.o,$(CTL_OBJECTS))
$(B)/tests/daemon.a: $(DAEMON_OBJECTS) $(KERNEL_OBJECTS) $(PROTOCOL_OBJECTS)
$(B)/tests/helpers.a: $(call objects,$(UNIT_FOLDERS),$(UNIT_SOURCES))
$(B)/tests/keeper.a: $(KEEPER_OBJECTS)
$(ARCHIVES):
	@echo '  AR      $@'
	$(Q)rm -f $@ && $(call tool,ar) rcsT $@ $^

# Tests of the keeper and of the client are linked with these first, since the daemon has some of the same names.
$(foreach source,$(UNIT_SOURCES),$(eval $(call programs,$(source)): $(source:%.c=$(B)/%.o)))
$(call programs,$(filter tests/unit/kernel/user_events/% tests/unit/kernel/keeper/%,$(UNIT_SOURCES))): $(B)/tests/keeper.a
$(call programs,$(filter tests/unit/client/%,$(UNIT_SOURCES))): $(B)/tests/client.a
$(UNIT_TESTS): $(SUITE_OBJECTS) $(B)/tests/helpers.a $(B)/tests/daemon.a
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $(filter %.o,$^) $(filter %/helpers.a,$^) $(filter %/keeper.a %/client.a,$^) $(filter %/daemon.a,$^) \
		-o $@ -pthread -lev $(call pkg,--libs,check libzstd)

$(INTEGRATION_TESTS) $(B)/tests/test_confined: $(B)/tests/%: $(B)/tests/integration/%.o $(FIXTURE_OBJECTS) $(SUITE_OBJECTS) $(B)/libuserev.a
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@ $(call pkg,--libs,check)

$(B)/tests/test_page_attacks: $(addprefix $(B)/tests/kernel/,page_attempts.o pages.o people.o)

$(SOAK_TEST): $(call objects,tests/soak) $(FIXTURE_OBJECTS) $(SUITE_OBJECTS) $(B)/libuserev.a
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@ $(call pkg,--libs,check)

# Programs and libraries as users build them: with the shared library alone.
$(B)/tests/static_program $(B)/tests/static_library.so $(B)/tests/static_plugin.so: LINKED = $(CC) $(BASE_LDFLAGS) $(LDFLAGS) \
	$(filter %.o,$^) -o $@ -L$(B) -luserev -Wl,-rpath,'$$ORIGIN:$$ORIGIN/..'

$(B)/tests/test_static: | $(B)/tests/static_program $(B)/tests/static_plugin.so

$(B)/tests/static_program: $(B)/tests/integration/static_program.o $(B)/tests/static_library.so $(B)/libuserev.so
	@echo '  LINK    $@'
	$(Q)$(LINKED) -pthread -L$(@D) -l:static_library.so

$(B)/tests/static_library.so: $(B)/tests/integration/static_library.o $(B)/libuserev.so
	@echo '  LINK    $@'
	$(Q)$(LINKED) -shared

$(B)/tests/integration/static_plugin.o: tests/integration/static_library.c
	@mkdir -p $(@D)
	@echo '  CC      $< (as a plugin)'
	$(Q)$(CC) $(BASE_CFLAGS) $(CFLAGS) -DAS_PLUGIN -c $< -o $@

$(B)/tests/static_plugin.so: $(B)/tests/integration/static_plugin.o $(B)/libuserev.so
	@echo '  LINK    $@'
	$(Q)$(LINKED) -shared

# A daemon with the ledger of another version.
$(B)/tests/userevd-next: $(B)/daemon/main.o $(B)/tests/integration/next_ledger.o $(filter-out %/ledger/ledger.o,$(DAEMON_OBJECTS)) \
		$(KERNEL_OBJECTS) $(PROTOCOL_OBJECTS)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@ -pthread -lev

# --- the same daemon and keeper, under the filters of their units ---

CONFINED_LISTS := $(B)/skeleton/userevd_syscalls.h $(B)/skeleton/userevd-keeper_syscalls.h

$(CONFINED_LISTS): $(B)/skeleton/%_syscalls.h: systemd/%.service.in tests/systemd/unit_syscalls.sh
	@mkdir -p $(@D)
	@echo '  LIST    $@'
	$(Q)tests/systemd/unit_syscalls.sh $< >$@

$(B)/tests/systemd/confined_%.o: EXTRA_CFLAGS = -isystem $(B)/skeleton
$(B)/tests/systemd/confined_daemon.o $(B)/tests/systemd/confined_keeper.o: $(CONFINED_LISTS)

$(CONFINED)/userevd: $(B)/daemon/main.o $(B)/tests/systemd/confine.o $(B)/tests/systemd/confined_daemon.o $(DAEMON_OBJECTS) $(KERNEL_OBJECTS) $(PROTOCOL_OBJECTS)
	@mkdir -p $(@D)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) -Wl,--wrap=daemon_run $^ -o $@ -pthread -lev

$(CONFINED)/userevd-keeper: PIE := $(or $(STATIC_PIE),$(PIE))
$(CONFINED)/userevd-keeper: $(B)/kernel/keeper/main.o $(B)/tests/systemd/confine.o $(B)/tests/systemd/confined_keeper.o $(KEEPER_OBJECTS) $(PROTOCOL_OBJECTS)
	@mkdir -p $(@D)
	@echo '  LINK    $@'
	$(Q)$(PROGRAM) -Wl,--wrap=user_events_new -pthread

# All other files are links, because tests look for them beside daemon and keeper.
$(CONFINED_TOOLS) $(CONFINED_TESTS) $(CONFINED)/userevd-guard: $(CONFINED)/%: $(B)/%
	@mkdir -p $(@D)
	$(Q)ln -f $< $@

tidy: $(CONFINED_LISTS) $(if $(HAS_GUARD),$(GUARD_SKELETONS))
analyze: $(if $(HAS_GUARD),$(GUARD_SKELETONS))
$(B)/tests/test_confined: $(B)/tests/systemd/confine.o

confined: $(CONFINED)/userevd $(CONFINED)/userevd-keeper $(if $(HAS_GUARD),$(CONFINED)/userevd-guard) $(CONFINED_TOOLS) $(CONFINED_TESTS)

$(B)/tests/restart_load: $(B)/tests/systemd/restart_load.o $(FIXTURE_OBJECTS) $(SUITE_OBJECTS)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@ $(call pkg,--libs,check)

# The headers of the alternatives do not pass all of our warnings.
BENCH_OBJECTS := $(call objects,tests/bench,$(wildcard tests/bench/bench_* tests/bench/rival_* tests/bench/sample_*))
$(B)/tests/bench/rival_lttng.o $(B)/tests/bench/rival_usdt.o: EXTRA_CFLAGS = -Wno-undef -Wno-strict-prototypes -Wno-old-style-definition \
	-Wno-cast-align -Wno-pointer-arith
$(B)/tests/bench/bench_off.o $(B)/tests/bench/rival_lttng.o $(B)/tests/bench/rival_usdt.o: EXTRA_CFLAGS += -fno-unroll-loops -falign-loops=64

$(filter-out $(B)/tests/sample_%,$(BENCHES)): $(B)/tests/%: $(B)/tests/bench/%.o $(BENCH_OBJECTS) $(PROTOCOL_LIBRARY_OBJECTS) $(B)/libuserev.a
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@ $(BENCH_LIBRARIES)

$(B)/tests/bench_quota: $(B)/tests/daemon.a
$(B)/tests/bench_quota: BENCH_LIBRARIES = -lev
$(B)/tests/bench_connections: $(B)/tests/bench/rival_dbus.o
$(B)/tests/bench_off: $(B)/tests/bench/rival_usdt.o
$(B)/tests/bench_embedded: $(B)/tests/bench/rival_journal.o
$(B)/tests/bench_embedded $(B)/tests/bench_off $(B)/tests/bench_record: $(B)/tests/bench/rival_lttng.o
$(B)/tests/bench_embedded $(B)/tests/bench_off $(B)/tests/bench_record: BENCH_LIBRARIES = -llttng-ust -ldl

# Static: the files of shared libraries are slow in a guest.
$(B)/tests/sample_declared: $(B)/libuserev.a
$(B)/tests/sample_%: $(B)/tests/bench/sample_%.o
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) -static $^ -o $@

$(B)/tests/emitter: $(B)/tests/integration/emitter.o $(PROTOCOL_OBJECTS) $(B)/libuserev.a
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@

# The driver of libuserev for the conformance suite. Static, so that it runs on machines without libraries, too.
$(B)/tests/driver: $(B)/tests/conformance/driver.o $(call objects,protocol/event) $(B)/protocol/base/text.o $(B)/libuserev.a
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $(if $(SANITIZE),,-static) $^ -o $@

$(B)/tests/driver_go: tests/conformance/driver.go $(wildcard client/go/*.go)
	@mkdir -p $(@D)
	@echo '  GO      $<'
	$(Q)cd client/go && CGO_ENABLED=0 GOFLAGS=-mod=mod GOPROXY=off GOCACHE=$(abspath $(B)/go) go build -o $(abspath $@) ../../$<

$(B)/tests/driver_java.jar: tests/conformance/Driver.java $(JAR)
	@echo '  JAVA    $<'
	$(Q)rm -rf $(B)/tests/driver_java && $(JAVAC) -cp $(JAR) -d $(B)/tests/driver_java $<
	$(Q)cp $(JAR) $@ && $(JAVA_HOME)/bin/jar --update --file=$@ -C $(B)/tests/driver_java .

$(B)/tests/driver_rust: tests/conformance/driver.rs $(wildcard client/rust/src/*.rs)
	@mkdir -p $(B)/rust
	@echo '  RUSTC   $<'
	$(Q)/usr/bin/rustc --edition 2021 -O -D warnings --crate-type rlib --crate-name userev --out-dir $(B)/rust client/rust/src/lib.rs
	$(Q)/usr/bin/rustc --edition 2021 -O -D warnings -C target-feature=+crt-static --extern userev=$(B)/rust/libuserev.rlib -o $@ $<

$(B)/tests/hammer: $(B)/tests/integration/hammer.o $(B)/libuserev.a
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@ -pthread

# Preloaded, it makes calls of the C library fail. It runs before ASan is initialised, so it is not instrumented. No library can be
# preloaded into a static program.
$(B)/tests/dynamic/userevd-keeper: $(B)/kernel/keeper/main.o $(KEEPER_OBJECTS) $(PROTOCOL_OBJECTS)
	@mkdir -p $(@D)
	@echo '  LINK    $@'
	$(Q)$(PROGRAM) -pthread

$(B)/tests/faults.so: | $(B)/tests/dynamic/userevd-keeper
$(B)/tests/faults/faults.o: EXTRA_CFLAGS = -fno-sanitize=all $(if $(findstring address,$(SANITIZE)),-DBEHIND_ASAN)
$(B)/tests/faults.so: $(B)/tests/faults/faults.o
	@echo '  LINK    $@'
	$(Q)$(CC) $(LDFLAGS) $(if $(COVERAGE),--coverage) -shared $^ -o $@

$(B)/tests/direct: $(B)/tests/integration/direct.o $(PROTOCOL_OBJECTS)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@

$(B)/tests/kill_at: $(B)/tests/integration/kill_at.o
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@

# The kernel's promises: for guests, as root. See tests/kernel/user_events.h.
KERNEL_TEST_OBJECTS := $(call objects,tests/kernel,$(wildcard tests/kernel/test_* tests/kernel/narrow.c))

$(KERNEL_TESTS): $(B)/tests/%: $(B)/tests/kernel/%.o $(KERNEL_TEST_OBJECTS) $(SUITE_OBJECTS)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@ $(call pkg,--libs,check)

# As tests/integration/test_32bit.sh does it.
NARROW = -m32 -idirafter /usr/include/$(shell $(CC) -print-multiarch)

$(B)/tests/test_narrow: | $(B)/tests/kernel/narrow

$(B)/tests/kernel/narrow: tests/kernel/narrow.c kernel/uapi.h
	@mkdir -p $(@D)
	@echo '  CC      $< (32 bits)'
	$(Q)$(CC) $(NARROW) -std=c17 -D_GNU_SOURCE -I. $(WARNINGS) $(CFLAGS) $< -o $@

kernel-tests: $(KERNEL_TESTS)

# The guard: for guests, as root, too.
GUARD_CALLERS := $(B)/tests/guard_caller $(if $(call supported,-m32),$(B)/tests/guard_caller32)
$(GUARD_TESTS): $(B)/tests/%: $(B)/tests/guard/%.o $(call objects,tests/guard,$(wildcard tests/guard/test_*) tests/guard/caller.c) $(SUITE_OBJECTS) \
		$(B)/kernel/privileges.o $(B)/kernel/native.o $(PROTOCOL_OBJECTS) | $(GUARD_CALLERS)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@ $(call pkg,--libs,check libbpf)

$(B)/tests/test_unguarded $(B)/tests/test_native_tenants: $(FIXTURE_OBJECTS) $(B)/libuserev.a

$(B)/tests/guard_caller: $(B)/tests/guard/caller.o
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@

# Programs that register by themselves: static, so without a library that could be replaced.
$(B)/tests/native_speaker: tests/guard/native/speaker.c
	@mkdir -p $(@D)
	@echo '  CC      $< (static)'
	$(Q)$(CC) -static -std=c17 -D_GNU_SOURCE $(WARNINGS) $(CFLAGS) $< -o $@
$(B)/tests/native_speaker_musl: tests/guard/native/speaker.c
	@mkdir -p $(@D)
	@echo '  CC      $< (musl)'
	$(Q)musl-gcc -static -std=c17 -D_GNU_SOURCE -Wall -Wextra -Werror -Wno-overflow -O2 $< -o $@
$(B)/tests/native_speaker_cc: tests/guard/native/speaker.cc
	@mkdir -p $(@D)
	@echo '  CXX     $<'
	$(Q)$(CXX) -static -std=c++17 -Wall -Wextra -Werror $(CFLAGS) $< -o $@
$(B)/tests/native_speaker_rs: tests/guard/native/speaker.rs
	@mkdir -p $(@D)
	@echo '  RUSTC   $<'
	$(Q)MAKEFLAGS= rustc --edition 2021 -D warnings -O -C target-feature=+crt-static $< -o $@
$(B)/tests/native_speaker_go: tests/guard/native/speaker.go
	@mkdir -p $(@D)
	@echo '  GO      $<'
	$(Q)CGO_ENABLED=0 GO111MODULE=off GOCACHE=$(abspath $(B)/go) go build -o $@ $<
$(B)/tests/native_event_pipe: tests/guard/native/event_pipe.c $(B)/libuserev.a
	@mkdir -p $(@D)
	@echo '  CC      $<'
	$(Q)$(CC) -std=c17 -D_GNU_SOURCE -I. -Iclient $(WARNINGS) $(CFLAGS) $< $(B)/libuserev.a $(BASE_LDFLAGS) $(LDFLAGS) -o $@ -pthread

$(B)/tests/guard_caller32: tests/guard/caller.c tests/guard/attempt.h kernel/uapi.h
	@mkdir -p $(@D)
	@echo '  CC      $< (32 bits)'
	$(Q)$(CC) $(NARROW) -std=c17 -D_GNU_SOURCE -I. $(WARNINGS) $(CFLAGS) $< -o $@

$(B)/fuzz_%: $(B)/tests/fuzz/fuzz_%.o $(B)/tests/client.a $(B)/tests/daemon.a
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) -fsanitize=fuzzer $(LDFLAGS) $^ -o $@ -pthread -lev $(call pkg,--libs,libzstd)

$(B)/fuzz_daemon: $(B)/tests/fuzz/fuzz_daemon.o $(SUITE_OBJECTS) $(B)/tests/helpers.a $(B)/tests/daemon.a
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) -fsanitize=fuzzer -Wl,--wrap=_ck_assert_failed,--wrap=_mark_point $(LDFLAGS) $^ -o $@ -pthread -lev \
		$(call pkg,--libs,check)
