# SPDX-License-Identifier: GPL-2.0-or-later
#
# make help lists the targets. Everything that is built lies below $(B).

VERSION := 0.1.0
SOVERSION := 1

B ?= build
# Else all of it would come to lie in the root.
ifeq ($(strip $(B)),)
$(error B= has to name a directory for what is built)
endif
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions
BINDIR ?= $(PREFIX)/bin
SBINDIR ?= $(PREFIX)/sbin
LIBEXECDIR ?= $(PREFIX)/lib/userevd
MANDIR ?= $(PREFIX)/share/man
DOCDIR ?= $(PREFIX)/share/doc/userevd
# Where Debian's python3 looks: below /usr whichever version it is.
PYTHONDIR ?= $(PREFIX)/lib/$(if $(filter /usr,$(PREFIX)),python3,$(PYTHON_VERSION))/dist-packages
PYTHON_VERSION = $(or $(shell python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])' 2>/dev/null),python3)
UNITDIR ?= $(PREFIX)/lib/systemd/system
PRESETDIR ?= $(PREFIX)/lib/systemd/system-preset
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
TMPFILESDIR ?= $(PREFIX)/lib/tmpfiles.d
DESTDIR ?=
CC ?= gcc
LD_RELOCATABLE ?= ld -r
SANITIZE ?=
COVERAGE ?=
DEPENDENCIES ?= auto
JOBS ?= $(shell nproc)
ifneq ($(V),1)
Q := @
endif

# What a fresh Debian 12 needs beside make: to build and run, and for the tests.
BUILD_PACKAGES := gcc libc6-dev pkg-config libsystemd-dev libtracefs-dev libtraceevent-dev libev-dev uthash-dev \
	clang bpftool libbpf-dev
DEB_PACKAGES := $(BUILD_PACKAGES) debhelper dpkg-dev systemd
TEST_PACKAGES := $(DEB_PACKAGES) check binutils gcc-multilib g++ clang libclang-rt-dev clang-format clang-tidy cppcheck llvm \
	mandoc python3 python3-prometheus-client procps systemd util-linux jq lintian python3-seccomp python3-yaml valgrind

# What we are compared with, and who draws it.
BENCH_PACKAGES := liblttng-ust-dev lttng-tools systemtap-sdt-dev dbus-broker valgrind gnuplot-nox

KERNEL_PACKAGES := gcc make bc bison flex kmod xz-utils libc6-dev libelf-dev libssl-dev dwarves linux-source-6.12 linux-source-6.1
VM_PACKAGES := qemu-system-x86 cpio e2fsprogs gcc libc6-dev util-linux trace-cmd linux-perf libbpf-dev bpftool clang llvm

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wpointer-arith \
	-Wwrite-strings -Wundef -Wvla -Wformat=2 -Wimplicit-fallthrough=5 -Wcast-align -Wnull-dereference -Werror
CFLAGS ?= -O2 -g
BASE_CFLAGS := -std=c17 -D_GNU_SOURCE -DVERSION='"$(VERSION)"' -I. -fPIC -fvisibility=hidden $(WARNINGS) -MMD -MP \
	$(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer) \
	$(if $(COVERAGE),--coverage -O0 -fprofile-update=atomic)
BASE_LDFLAGS := $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(if $(COVERAGE),--coverage)

# What makes it harder to use a mistake, as far as compiler and machine know it; tests/unit/test_hardening.sh looks for it in what
# was built. The checks of libc need an optimiser, are not made beside a sanitizer, and are Debian's to choose in its packages.
supported = $(shell $(CC) -Werror $(1) -x c -S -o /dev/null - </dev/null 2>/dev/null && echo $(1))
CHECKS_OF_LIBC := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3
HARDENING := -fstack-protector-strong $(call supported,-fstack-clash-protection) \
	$(or $(call supported,-fcf-protection=full),$(call supported,-mbranch-protection=standard)) \
	$(if $(SANITIZE)$(COVERAGE)$(findstring _FORTIFY_SOURCE,$(CFLAGS))$(filter -O0,$(CFLAGS)),,$(if $(filter -O%,$(CFLAGS)),$(CHECKS_OF_LIBC)))
BASE_CFLAGS += $(HARDENING)
BASE_LDFLAGS += -Wl,-z,relro,-z,now,-z,noexecstack
# Of what is installed; a program of ours is also one that can lie anywhere in memory.
PROGRAM = $(CC) -pie $(BASE_LDFLAGS) $(LDFLAGS) $(filter %.o,$^) -o $@

PROTOCOL_LIBRARY := decode encode fdset refusal transport
PROTOCOL := $(PROTOCOL_LIBRARY) description disposal record row suggest table text
KERNEL_FOLDER := bits embedded embedded_event message page page_directory page_file privileges probe remote ring roster source tracer
KEEPER := bits deposit enable_address enabler enablers format handover inheritance keeper keeper_daemons left_behind look message mounts page_directory page_file placement \
	privileges probe status_page stream user_events
# Also in userevctl, which checks policy files and explains them without a daemon.
POLICY := policy policy_event policy_file policy_glob policy_keys policy_load policy_pattern policy_problem
DAEMON := admission backend backlog boundary bucket bundle capacity cgroup charge client control daemon declared deposit dispatch entries event explain \
	hello inflight last_policy lease ledger ledger_rewrite level linger listener listing log loop memory metrics metrics_socket options pages parking peer $(POLICY) query quota reference register \
	release reload reserve restore rules settling stream succession systemd tail tenant throttle turns unprivileged watch
LIBRARY := answer batch clock connection debug event fd lock look memory module open page place poll register release request said stream watch write
CTL := userevctl ctl_control ctl_doctor ctl_doctor_event ctl_doctor_host ctl_doctor_user ctl_emit ctl_emit_line ctl_emit_stream ctl_events ctl_finding ctl_greet ctl_json ctl_metrics ctl_names \
	ctl_options ctl_output ctl_policy ctl_policy_cgroups ctl_policy_check ctl_policy_explain ctl_policy_ledger ctl_policy_show ctl_private ctl_quiet \
	ctl_record ctl_reload ctl_run ctl_status ctl_table ctl_tenant_name ctl_tenant_view ctl_tenants ctl_top ctl_top_frame ctl_top_keys \
	ctl_top_screen ctl_top_source ctl_trace ctl_tracer \
	tracer_embedded tracer_tracefs tracer_tracefs_buffer tracer_tracefs_catalogue tracer_tracefs_instance \
	tracer_tracefs_look tracer_tracefs_settle tracer_tracefs_signal tracer_tracefs_tail tracer_tracefs_text \
	tracer_tracefs_writer

UNIT_TESTS := test_admission test_alive test_async test_bits test_boundary test_bucket test_bundles test_catalogue test_cgroup test_client test_clock test_daemon test_declared \
	test_decode test_description test_disposal test_embedded test_emit_line test_fdset test_files test_ledger test_level test_log test_loop test_message test_options test_output \
	test_page test_page_file test_policy test_policy_file test_policy_glob test_policy_keys test_probe test_quota test_quota_history test_record \
	test_refusal test_remote test_restore test_ring test_roster test_row test_settling test_streams test_suggest test_suspects test_systemd test_table test_tenant_name test_text \
	test_top test_tracefs_text test_transport test_turns
# Of what is in the keeper alone.
KEEPER_TESTS := test_format test_handover test_keeper_serve test_look test_places
# One tenant does its worst. What the daemon makes of it does not depend on the kernel, so one guest will do.
EXHAUSTION_TESTS := test_bad_days test_exhaustion test_exhaustion_fds test_exhaustion_files test_exhaustion_memory test_exhaustion_requests test_exhaustion_untaken
INTEGRATION_TESTS := $(EXHAUSTION_TESTS) test_exhaustion_kernel test_hostile test_identity test_inflight test_keeper test_keeper_strangers test_kernel test_library test_limits test_lingering test_machine \
	test_page_attacks test_policy_events test_raw test_reload test_restart test_rules test_sharing test_static test_succession test_tenants
KERNEL_TESTS := test_data_file test_descriptions test_enabling test_inheriting test_lifetime test_lock test_mount test_narrow \
	test_page_access test_quiescence test_registering test_room test_status_page test_strangers test_tracefs
SCRIPT_TESTS := $(addprefix tests/unit/,test_bench_report.py test_declaring.sh test_disassembly.sh test_hardening.sh test_instructions.sh test_man.py \
		test_security.py test_symbols.sh test_unless_known.sh) \
	tests/integration/test_32bit.sh tests/integration/test_completion.sh tests/integration/test_conformance.py tests/integration/test_demo.sh tests/integration/test_doctor.sh \
	tests/integration/test_examples.sh tests/integration/test_install.sh tests/integration/test_last_policy.sh tests/integration/test_tutorial.sh \
	tests/integration/test_metrics.py tests/integration/test_policy.sh tests/integration/test_python.py \
	tests/integration/test_newcomer.sh tests/integration/test_quiescence.py tests/integration/test_run.sh \
	tests/integration/test_top.sh tests/integration/test_userevctl.sh \
	tests/systemd/test_seccomp.py
# Where daemon and keeper are under the seccomp filters of their units: what is not allowed there kills.
CONFINED := $(B)/confined
CONFINED_TESTS := $(CONFINED)/tests/test_confined $(INTEGRATION_TESTS:%=$(CONFINED)/tests/%)
CONFINED_TOOLS := $(addprefix $(CONFINED)/,userevctl libuserev.so.$(SOVERSION) $(addprefix tests/,emitter direct restart_load userevd-next static_program \
	static_library.so static_plugin.so))
# Of packages that are built before.
DEB_TESTS := tests/systemd/test_deb.sh

# What is run again in guests: each with a kernel of its own, and one with systemd as its first process.
KERNELS := 6.12 6.1
KERNEL ?= 6.12
GUEST_TESTS := $(addprefix $(B)/tests/,test_embedded test_transport test_disposal test_page) \
	$(addprefix tests/integration/,test_conformance.py test_doctor.sh test_examples.sh test_faults_pair.py test_interoperation.sh test_python.py \
	test_tracing.sh)
# What `make vm` boots, where the tutorial goes on. (Before 6.4 a histogram does not know strings of user_events.)
GUEST_TESTS_6_12 = $(GUEST_TESTS) tests/integration/test_tutorial.sh $(CONFINED_TESTS) $(GUARD_TESTS)
GUEST_TESTS_6_1 = $(GUEST_TESTS) $(addprefix $(B)/tests/,$(filter-out $(EXHAUSTION_TESTS),$(INTEGRATION_TESTS))) $(GUARD_TESTS)
# What is written on one processor while another one switches.
TWO_PROCESSOR_TESTS := $(KERNEL_TESTS:%=$(B)/tests/%) tests/integration/test_quiescence.py
EARLY_TESTS := tests/systemd/test_early_boot.sh
SYSTEMD_TESTS := tests/systemd/test_systemd.sh tests/systemd/test_restart.sh
# Each call of dpkg takes half a minute in a guest: a target of its own.
PACKAGE_TESTS := tests/systemd/test_packages.sh
# The first run beside what is tested here, which waits a lot, and the others after that.
LONG_GUESTS = --guest 6.12+systemd $(B) $(SYSTEMD_TESTS) --guest 6.12 $(B) $(GUEST_TESTS_6_12) --guest 6.1 $(B) $(GUEST_TESTS_6_1)
SHORT_GUESTS = --guest 6.12+two $(B) $(TWO_PROCESSOR_TESTS) --guest 6.1+two $(B) $(TWO_PROCESSOR_TESTS) --guest 6.12+early $(B) $(EARLY_TESTS)

# A program for each question: some ask nothing of the kernel, others are for guests. run.py says which.
BENCHES := $(patsubst tests/bench/%.c,$(B)/tests/%,$(wildcard tests/bench/bench_*.c))

objects = $(foreach name,$(2),$(B)/$(1)/$(name).o)
PROTOCOL_LIBRARY_OBJECTS := $(call objects,protocol,$(PROTOCOL_LIBRARY))
PROTOCOL_OBJECTS := $(call objects,protocol,$(PROTOCOL))
KERNEL_OBJECTS := $(call objects,kernel,$(KERNEL_FOLDER))
KEEPER_OBJECTS := $(call objects,kernel,$(KEEPER))
DAEMON_OBJECTS := $(call objects,daemon,$(DAEMON))
LIBRARY_OBJECTS := $(call objects,client,$(LIBRARY))
CTL_OBJECTS := $(call objects,client,$(CTL))

PROGRAMS := $(B)/userevd $(B)/userevd-keeper $(B)/userevctl
LIBRARIES := $(B)/libuserev.so.$(SOVERSION) $(B)/libuserev.so $(B)/libuserev.a $(B)/libuserev.pc \
	$(B)/libuserev-uninstalled.pc
UNITS := $(B)/systemd/userevd.service $(B)/systemd/userevd-keeper.service
EXAMPLES := $(addprefix $(B)/examples/,hello plugin.so plugin_host requests server use_stack)
TESTS_OF_PARTS := $(UNIT_TESTS:%=$(B)/tests/%) $(KEEPER_TESTS:%=$(B)/tests/%)
TESTS := $(TESTS_OF_PARTS) $(INTEGRATION_TESTS:%=$(B)/tests/%)

BUILD = $(MAKE) --no-print-directory -j$(JOBS) DEPENDENCIES=skip
ASAN := $(B)/asan
ASAN_TESTS := $(TESTS:$(B)/%=$(ASAN)/%) tests/integration/test_userevctl.sh tests/integration/test_policy.sh \
	tests/integration/test_metrics.py tests/integration/test_top.sh tests/integration/test_faults.py
# What has threads: the library, a thread that closes and one that reads the policy.
TSAN := $(B)/tsan
TSAN_TESTS := $(addprefix $(TSAN)/tests/,test_alive test_disposal test_library test_reload test_static)
BUILD_ASAN = $(BUILD) B=$(ASAN) SANITIZE=address,undefined

.PHONY: all build build-tests confined deb packages install uninstall kernels help run demo test check asan tsan coverage tidy format clean
.PHONY: FORCE analyze dependencies test-dependencies bench-dependencies vm-dependencies faults faults-daemon faults-keeper fuzz fuzz-coverage fuzzers races soak kernel-tests bench vm
.PHONY: exhaustion check-bypass check-vm check-packages check-restart $(KERNELS:%=kernel-%)
.DELETE_ON_ERROR:
.SECONDARY:

all: dependencies
	$(Q)$(BUILD) build

build: $(PROGRAMS) $(LIBRARIES) $(EXAMPLES) $(UNITS)

help:
	@echo 'make             build everything below $(B)/'
	@echo 'make run         build, and start the daemon in the foreground with what this machine has'
	@echo 'make demo        the whole tour in half a minute, without a keyboard'
	@echo 'make test        everything that CI runs: check, asan, tidy, check-vm'
	@echo 'make check       unit and integration tests'
	@echo 'make asan        the same under AddressSanitizer and UndefinedBehaviorSanitizer'
	@echo 'make tsan        what has threads, under ThreadSanitizer'
	@echo 'make coverage    line coverage of the same'
	@echo 'make fuzz        each harness of tests/fuzz for SECONDS=60, or RUNS= executions'
	@echo 'make fuzz-coverage  which lines its corpora reach'
	@echo 'make faults      each call of the daemon fails once, and from then on; EVERY=100 for a hundredth of it'
	@echo 'make faults-keeper  … of the keeper, on a kernel, for hours; make faults-daemon … of a daemon that has a keeper'
	@echo 'make races       programs come and go for SECONDS=60 while calls of the daemon come late'
	@echo 'make soak        programs, policies and restarts by chance for SECONDS=120, and nothing grows; KERNEL=6.12 in a guest'
	@echo 'make tidy        clang-format, clang-tidy, cppcheck, GCC'"'"'s analyser'
	@echo 'make analyze     the last of these'
	@echo 'make check-vm    what runs in virtual machines, whose kernels have user_events'
	@echo 'make exhaustion  what one tenant can do to its neighbour, in full numbers, as a table; it takes about an hour'
	@echo 'make check-bypass   every way around the guard and into a status page, with the guard, with seccomp and with nothing'
	@echo 'make check-restart  two hundred programs while daemon and keeper are killed; it takes a while'
	@echo 'make check-packages  how the Debian packages live and end in one of them; it takes long'
	@echo 'make bench       what the broker costs and saves, beside every other way; QUICK=1 in two minutes, REPORT=1 writes the report'
	@echo 'make vm          a shell in such a machine, with the daemon running; KERNEL=6.1 for the older interface'
	@echo 'make kernels     their kernels, from Debian'"'"'s sources; about twenty minutes, once'
	@echo 'make format      let clang-format have its way'
	@echo 'make install     below PREFIX=$(PREFIX), with DESTDIR= in front; make uninstall takes it away again'
	@echo 'make deb         Debian packages, below $(B)/deb/; MAINTAINER="Name <address>" is who to tell of what is wrong with them'
	@echo 'make clean       remove $(B)/'
	@echo
	@echo 'Variables: B=DIR where to build, CC=…, CFLAGS=…, JOBS=N, V=1 to see commands, DEPENDENCIES=skip to install nothing.'

run: dependencies
	$(Q)$(BUILD) build
	$(Q)B=$(B) tests/run-daemon.sh

demo: dependencies
	$(Q)$(BUILD) build
	$(Q)B=$(B) tests/demo.sh

# All is tested in one go, so that the sum at the end is of everything.
test: test-dependencies kernels
	$(Q)$(BUILD) tidy
	$(Q)$(BUILD) build-tests confined
	$(Q)$(BUILD_ASAN) build-tests
	$(Q)$(BUILD) packages fuzzers
	$(Q)tests/run-tests.sh $(LONG_GUESTS) --beside $(ASAN) $(ASAN_TESTS) \
		-- $(B) $(TESTS_OF_PARTS) $(SCRIPT_TESTS) $(SOAK_TEST) $(DEB_TESTS) tests/fuzz/test_fuzz.sh tests/vm/test_bed.sh \
		-- $(CONFINED) $(filter-out $(EXHAUSTION_TESTS:%=$(CONFINED)/tests/%),$(CONFINED_TESTS)) $(SHORT_GUESTS)

check: test-dependencies
	$(Q)$(BUILD) build-tests
	$(Q)tests/run-tests.sh $(B) $(TESTS) $(SCRIPT_TESTS) $(SOAK_TEST)

asan: test-dependencies
	$(Q)$(BUILD_ASAN) build-tests
	$(Q)tests/run-tests.sh $(ASAN) $(ASAN_TESTS)

tsan: test-dependencies
	$(Q)$(BUILD) B=$(TSAN) SANITIZE=thread build $(TSAN_TESTS)
	$(Q)tests/run-tests.sh $(TSAN) $(TSAN_TESTS)

check-vm: test-dependencies kernels
	$(Q)$(BUILD) build-tests confined packages
	$(Q)tests/run-tests.sh $(LONG_GUESTS) -- $(B) $(DEB_TESTS) tests/vm/test_bed.sh $(SHORT_GUESTS)

# What SECURITY.md says of data files and pages.
BYPASS_TESTS = $(GUARD_TESTS) $(B)/tests/test_page_access $(B)/tests/test_page_attacks
check-bypass: test-dependencies kernels
	$(Q)$(BUILD) build-tests
	$(Q)tests/run-tests.sh $(B) $(B)/tests/test_page_attacks tests/systemd/test_seccomp.py \
		--guest 6.12 $(B) $(BYPASS_TESTS) --guest 6.1 $(B) $(BYPASS_TESTS)
	$(Q)cd $(B)/logs && grep -E '^[0-9]+ attempts ' test_page_attacks.log linux-6.12/*.log linux-6.1/*.log

check-restart: test-dependencies kernel-6.12
	$(Q)$(BUILD) build-tests
	$(Q)CLIENTS=200 DAEMON_KILLS=100 KEEPER_KILLS=20 RESTART_STEP=1 TEST_LIMIT=7200 GUEST_LIMIT=7500 CK_TIMEOUT_MULTIPLIER=20 \
		tests/run-tests.sh $(B) --guest 6.12+systemd $(B) tests/systemd/test_restart.sh --guest 6.12 $(B) $(B)/tests/test_restart

# Prints the table that SECURITY.md has. What only a kernel with user_events can show is from guests.
exhaustion: test-dependencies kernels
	$(Q)$(BUILD) build-tests
	$(Q)$(BUILD_ASAN) build-tests
	$(Q)FULL=1 LOGS=$(B)/logs/exhaustion TEST_LIMIT=7200 CK_TIMEOUT_MULTIPLIER=20 \
		tests/run-tests.sh $(B) $(EXHAUSTION_TESTS:%=$(B)/tests/%) -- $(ASAN) $(ASAN)/tests/test_raw \
		$(KERNELS:%=--guest % $(B) $(B)/tests/test_exhaustion_kernel)
	@echo
	@echo '| what one tenant did | the daemon grew by, KiB | its neighbour was granted, and refused | half its requests took, alone → then, µs | 99 of 100 took | the slowest, ms |'
	@echo '|---|---|---|---|---|---|'
	$(Q)cd $(B)/logs/exhaustion && sed -n '/^|/p' $(EXHAUSTION_TESTS:%=%.log) test_raw.log $(KERNELS:%=../linux-%/test_exhaustion_kernel.log)

check-packages: test-dependencies kernel-6.12
	$(Q)$(BUILD) build-tests packages
	$(Q)tests/run-tests.sh $(B) $(DEB_TESTS) --guest 6.12+systemd $(B) $(PACKAGE_TESTS)

# Timing decides no test: what it prints is for people. Best on a machine that does nothing else. QUICK=1 takes two minutes instead
# of twenty; REPORT=1 writes the tables into tests/bench/REPORT.md; PATIENCE=3 lets all take three times as long before it is ended.
bench: test-dependencies bench-dependencies kernels
	$(Q)$(BUILD) build $(BENCHES)
	$(Q)tests/bench/run.py $(if $(REPORT),--report=tests/bench/REPORT.md) $(if $(QUICK),--quick) $(if $(PATIENCE),--patience=$(PATIENCE)) $(B)

bench-dependencies: vm-dependencies
	$(call install_packages,$(BENCH_PACKAGES))

vm: dependencies vm-dependencies
	$(Q)$(BUILD) build
	$(Q)B=$(B) tests/vm/run-guest.sh --shell --limit=0 $(KERNEL) -- tests/vm/shell.sh

# Kept outside the checkout, so that a second time costs nothing. Side by side, for neither build keeps two cores busy to its end.
kernels: vm-dependencies
	$(Q)$(BUILD) $(KERNELS:%=kernel-%)

$(KERNELS:%=kernel-%): kernel-%:
	$(Q)tests/vm/build-kernel.sh $* >/dev/null

vm-dependencies:
	$(call install_packages,$(KERNEL_PACKAGES) $(VM_PACKAGES))

# Each harness for so many seconds, from what is known on; what it finds is left below $(B)/fuzz/.
fuzz: SECONDS ?= 60
fuzz: test-dependencies
	$(Q)$(BUILD) fuzzers
	$(Q)tests/fuzz/run.sh $(B)/fuzz $(SECONDS)

# Whatever call fails, and wherever userevctl is interrupted; or each EVERY-th.
EVERY ?= 1
faults: test-dependencies
	$(Q)$(BUILD_ASAN) build $(ASAN)/tests/faults.so
	$(Q)B=$(ASAN) tests/faults/sweep.py --every=$(EVERY)
	$(Q)B=$(ASAN) tests/faults/interrupts.py --every=$(EVERY)

# The same for one of a pair, on a kernel: that takes hours.
faults-daemon faults-keeper: faults-%: test-dependencies vm-dependencies
	$(Q)$(BUILD) build
	$(Q)$(BUILD_ASAN) build $(ASAN)/tests/faults.so
	$(Q)B=$(B) tests/vm/run-guest.sh --limit=0 $(KERNEL) -- env VICTIMS=$(ASAN) tests/faults/sweep.py --fail=$* --every=$(EVERY)

races: test-dependencies
	$(Q)$(BUILD_ASAN) build $(ASAN)/tests/faults.so
	$(Q)B=$(ASAN) tests/faults/races.py $(SECONDS)

FUZZERS := build cgroup daemon description glob keeper ledger policy record rows tracefs wire
# By clang, which has other warnings.
BUILD_FUZZERS = $(BUILD) CC=clang SANITIZE=address,undefined,fuzzer-no-link WARNINGS='-Wall -Wextra -Werror'
fuzzers:
	$(Q)$(BUILD_FUZZERS) B=$(B)/fuzz $(FUZZERS:%=$(B)/fuzz/fuzz_%)

COVERS := -fprofile-instr-generate -fcoverage-mapping
fuzz-coverage: test-dependencies
	$(Q)$(BUILD_FUZZERS) B=$(B)/fuzz-coverage CFLAGS='-O1 -g $(COVERS)' LDFLAGS='$(COVERS)' $(FUZZERS:%=$(B)/fuzz-coverage/fuzz_%)
	$(Q)tests/fuzz/coverage.sh $(B)/fuzz-coverage

$(B)/fuzz_%: $(B)/tests/fuzz/fuzz_%.o $(call objects,daemon,cgroup ledger ledger_rewrite $(POLICY)) $(call objects,kernel,message probe) $(B)/client/tracer_tracefs_text.o \
		$(PROTOCOL_OBJECTS)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) -fsanitize=fuzzer $(LDFLAGS) $^ -o $@

$(B)/fuzz_daemon: $(B)/tests/fuzz/fuzz_daemon.o $(B)/tests/suite.o $(call objects,tests/unit,books fake_kernel world) $(DAEMON_OBJECTS) \
		$(KERNEL_OBJECTS) $(PROTOCOL_OBJECTS)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) -fsanitize=fuzzer -Wl,--wrap=_ck_assert_failed,--wrap=_mark_point $(LDFLAGS) $^ -o $@ -pthread -lev \
		$(call pkg,--libs,check libsystemd)

# Here, where the daemon may have to be the tracer; in a guest where KERNEL= is said. `make test` has two minutes of it.
SOAK_TEST := $(B)/tests/test_soak
SOAK_KERNEL := $(if $(filter command environment,$(firstword $(origin KERNEL))),$(KERNEL))
soak: SECONDS ?= 120
soak: test-dependencies $(if $(SOAK_KERNEL),vm-dependencies)
	$(Q)$(BUILD) build $(SOAK_TEST)
	$(Q)B=$(B) tests/soak/soak.sh $(SECONDS) "$(SOAK_KERNEL)" $(SEED)

coverage: test-dependencies
	$(Q)$(BUILD) B=$(B)/coverage COVERAGE=1 build-tests
	$(Q)find $(B)/coverage -name '*.gcda' -delete
	$(Q)tests/run-tests.sh $(B)/coverage $(TESTS:$(B)/%=$(B)/coverage/%) tests/integration/test_userevctl.sh
	$(Q)tests/coverage.sh $(B)/coverage

build-tests: build $(B)/examples/tasks $(TESTS) $(KERNEL_TESTS:%=$(B)/tests/%) $(SOAK_TEST) \
	$(addprefix $(B)/tests/,driver emitter direct faults.so hammer restart_load userevd-next)

# What is installed, as mode:file:directory[:name]; uninstall takes away just that.
INSTALLED = 755:$(B)/userevd:$(SBINDIR) 755:$(B)/userevctl:$(BINDIR) 755:$(B)/userevd-keeper:$(LIBEXECDIR) 755:$(B)/libuserev.so.$(SOVERSION):$(LIBDIR) \
	644:$(B)/libuserev.a:$(LIBDIR) 644:client/userev.h:$(INCLUDEDIR) 644:client/userev_event.h:$(INCLUDEDIR) 644:$(B)/libuserev.pc:$(LIBDIR)/pkgconfig \
	$(foreach unit,$(UNITS) $(wildcard systemd/*.socket),644:$(unit):$(UNITDIR)) 644:systemd/80-userevd.preset:$(PRESETDIR) \
	644:systemd/sysusers/userevd.conf:$(SYSUSERSDIR) 644:systemd/tmpfiles/userevd.conf:$(TMPFILESDIR) 644:client/userevctl.1:$(MANDIR)/man1 \
	644:protocol/userevd-protocol.7:$(MANDIR)/man7 644:daemon/userevd.8:$(MANDIR)/man8 644:kernel/userevd-keeper.8:$(MANDIR)/man8 \
	644:daemon/userevd.conf.5:$(MANDIR)/man5 \
	$(foreach file,$(wildcard systemd/policy.d-examples/*.conf),644:$(file):$(DOCDIR)/policy.d-examples)
# Each function has a page, whichever file it stands in.
names_of = $(shell sed -n '/^\.Sh SYNOPSIS/q; s/^\.Nm \([^ ]*\).*/\1/p' $(1))
INSTALLED += $(foreach page,$(wildcard client/*.3),$(foreach name,$(sort $(basename $(notdir $(page))) $(call names_of,$(page))),644:$(page):$(MANDIR)/man3:$(name).3))
INSTALLED += 644:client/userevctl.bash-completion:$(COMPLETIONDIR):userevctl \
	644:systemd/userevd-containers.7:$(MANDIR)/man7 \
	$(foreach file,$(wildcard systemd/containers/*),644:$(file):$(DOCDIR)/containers)
INSTALLED += 644:client/python/python-userev.3:$(MANDIR)/man3 \
	$(foreach file,$(wildcard client/python/userev/*.py),644:$(file):$(PYTHONDIR)/userev)
# Directories that nobody else has anything in.
INSTALLED_DIRECTORIES = $(PYTHONDIR)/userev $(DOCDIR)/containers $(DOCDIR)/policy.d-examples $(DOCDIR) $(LIBEXECDIR)

install: build
	$(Q)for entry in $(INSTALLED); do \
		IFS=:; set -- $$entry; \
		install -D -m $$1 "$$2" "$(DESTDIR)$$3/$${4:-$${2##*/}}" || exit 1; \
	done
	$(Q)ln -sf libuserev.so.$(SOVERSION) "$(DESTDIR)$(LIBDIR)/libuserev.so"

uninstall:
	$(Q)for entry in $(INSTALLED); do \
		IFS=:; set -- $$entry; \
		rm -f "$(DESTDIR)$$3/$${4:-$${2##*/}}"; \
	done
	$(Q)rm -f "$(DESTDIR)$(LIBDIR)/libuserev.so"
	$(Q)rm -rf "$(DESTDIR)$(PYTHONDIR)/userev/__pycache__"
	$(Q)for directory in $(INSTALLED_DIRECTORIES); do \
		[ ! -d "$(DESTDIR)$$directory" ] || rmdir --ignore-fail-on-non-empty "$(DESTDIR)$$directory"; \
	done

# Debian packages, from a copy of what they are made of; made anew when any of that has changed. Who makes them is named in them, for
# those who install them and find something (SECURITY.md): as Debian's tools are told, else as Git is, else root of this machine.
MAINTAINER ?= $(if $(and $(DEBFULLNAME),$(DEBEMAIL)),$(DEBFULLNAME) <$(DEBEMAIL)>,$(or $(shell \
	git config user.email >/dev/null 2>&1 && echo "$$(git config user.name) <$$(git config user.email)>"),root <root@$(shell hostname -f)>))
DEB_SOURCES := LICENSE Makefile README.md client daemon kernel protocol systemd
DEB_TREE = $(B)/deb/userevd-$(VERSION)

deb:
	$(call install_packages,$(DEB_PACKAGES))
	$(Q)$(BUILD) packages

packages: $(B)/deb/$(VERSION).stamp

# With a clean environment: what was said to this make is not meant for those who install a package.
$(B)/deb/$(VERSION).stamp: $(shell find $(DEB_SOURCES) -type f)
	@echo '  DEB     $(B)/deb'
	$(Q)rm -rf $(DEB_TREE) $@ && mkdir -p $(DEB_TREE)
	$(Q)cp -r $(DEB_SOURCES) $(DEB_TREE)
	$(Q)mv $(DEB_TREE)/systemd/debian $(DEB_TREE)/debian
	$(Q)for file in changelog control; do \
		sed 's|@VERSION@|$(VERSION)|; s|@MAINTAINER@|$(MAINTAINER)|' $(DEB_TREE)/debian/$$file.in >$(DEB_TREE)/debian/$$file; done
	$(Q)cd $(DEB_TREE) && env -i PATH="$$PATH" LC_ALL=C.UTF-8 DEB_BUILD_OPTIONS='parallel=$(JOBS) noautodbgsym' \
		dpkg-buildpackage --build=binary --no-sign >../build.log 2>&1 || { tail -40 ../build.log; exit 1; }
	$(Q)rm -rf $(DEB_TREE)
	$(Q)touch $@

SOURCES = $(wildcard protocol/*.c kernel/*.c daemon/*.c client/*.c client/examples/*.c tests/*.c tests/*/*.c)
HEADERS = $(wildcard protocol/*.h kernel/*.h daemon/*.h client/*.h tests/*.h tests/*/*.h)

tidy: test-dependencies
	@echo '  CHECK   clang-format, clang-tidy, cppcheck'
	$(Q)clang-format --dry-run -Werror $(SOURCES) $(HEADERS)
	$(Q)B=$(B) tests/tidy.sh $(filter-out %.bpf.c tests/bench/rival_lttng.c tests/bench/rival_usdt.c,$(SOURCES))
	$(Q)$(BUILD) analyze

analyze: test-dependencies
	@echo '  CHECK   gcc -fanalyzer'
	$(Q)B=$(B) tests/analyze.sh

format:
	$(Q)clang-format -i $(SOURCES) $(HEADERS)

clean:
	$(Q)rm -rf $(B)

# Installs what is missing, if it may; says what is missing, if not.
define install_packages
	@[ '$(DEPENDENCIES)' = skip ] || tests/packages.sh $(1)
endef

dependencies:
	$(call install_packages,$(BUILD_PACKAGES))

test-dependencies:
	$(call install_packages,$(TEST_PACKAGES))

# --- how things are built ---

pkg = $(shell pkg-config $(1) $(2))

$(B)/%.o: %.c
	@mkdir -p $(@D)
	@echo '  CC      $<'
	$(Q)$(CC) $(BASE_CFLAGS) $(CFLAGS) $(EXTRA_CFLAGS) -c $< -o $@

$(B)/client/tracer_%.o $(B)/tests/fuzz/%.o: EXTRA_CFLAGS = $(call pkg,--cflags,libtracefs)
$(B)/client/examples/%.o: EXTRA_CFLAGS = -Iclient -fvisibility=default

$(B)/userevd: $(B)/daemon/main.o $(DAEMON_OBJECTS) $(KERNEL_OBJECTS) $(PROTOCOL_OBJECTS)
	@echo '  LINK    $@'
	$(Q)$(PROGRAM) -pthread -lev $(call pkg,--libs,libsystemd)

$(B)/userevd-keeper: $(B)/kernel/keeper_main.o $(KEEPER_OBJECTS) $(PROTOCOL_OBJECTS)
	@echo '  LINK    $@'
	$(Q)$(PROGRAM) -pthread

$(B)/userevctl: $(CTL_OBJECTS) $(LIBRARY_OBJECTS) $(call objects,daemon,boundary cgroup $(POLICY)) $(B)/kernel/probe.o $(PROTOCOL_OBJECTS)
	@echo '  LINK    $@'
	$(Q)$(PROGRAM) $(call pkg,--libs,libtracefs)

# Never unloaded: at the end of a program that looks like dlclose(), and other threads may still emit.
$(B)/libuserev.so.$(SOVERSION): $(LIBRARY_OBJECTS) $(PROTOCOL_LIBRARY_OBJECTS) client/libuserev.map
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) -shared -Wl,-soname,$(@F) -Wl,-z,nodelete -Wl,--version-script=client/libuserev.map \
		$(if $(SANITIZE),,-Wl,-z,defs) $(filter %.o,$^) -o $@

$(B)/libuserev.so: $(B)/libuserev.so.$(SOVERSION)
	$(Q)ln -sf $(<F) $@

# One object in which only userev_* is global, so that a program may have a decode_message() of its own. (On 32 bits every
# object has the compiler's thunks, of which the linker keeps one: they must stay what they are.)
$(B)/libuserev.a: $(LIBRARY_OBJECTS) $(PROTOCOL_LIBRARY_OBJECTS)
	@echo '  AR      $@'
	$(Q)$(LD_RELOCATABLE) $^ -o $(B)/libuserev.o
	$(Q)objcopy --wildcard --keep-global-symbol='userev_*' --keep-global-symbol='__x86.*' $(B)/libuserev.o
	$(Q)rm -f $@
	$(Q)ar rcs $@ $(B)/libuserev.o

# Made anew each time: PREFIX may be another. The second is for building against a build that is not installed: pkg-config prefers it.
$(B)/libuserev.pc: client/libuserev.pc.in FORCE
	@mkdir -p $(@D)
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@LIBDIR@|$(LIBDIR)|g' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|g' \
		-e 's|@VERSION@|$(VERSION)|g' $< > $@

$(B)/libuserev-uninstalled.pc: client/libuserev.pc.in FORCE
	@mkdir -p $(@D)
	$(Q)sed -e 's|@PREFIX@|$(CURDIR)|g' -e 's|@LIBDIR@|$(abspath $(B))|g' -e 's|@INCLUDEDIR@|$(CURDIR)/client|g' \
		-e 's|@VERSION@|$(VERSION)|g' $< > $@

# From systemd 253 on it tells the daemon to reload, and waits for the end of that, by itself.
RELOADS_BY_NOTIFY ?= $(if $(SYSTEMD_IS_253),yes,no)
SYSTEMD_IS_253 = $(shell pkg-config --atleast-version=253 libsystemd && echo yes)

$(B)/systemd/%.service: systemd/%.service.in FORCE
	@mkdir -p $(@D)
	$(Q)sed -e 's|@SBINDIR@|$(SBINDIR)|g' -e 's|@LIBEXECDIR@|$(LIBEXECDIR)|g' \
		$(if $(filter yes,$(RELOADS_BY_NOTIFY)),-e 's|@NOTIFY@|notify-reload|' -e '/@EXEC_RELOAD@/d', \
		-e 's|@NOTIFY@|notify|' -e 's|@EXEC_RELOAD@|ExecReload=$(BINDIR)/userevctl reload|') $< > $@

$(B)/examples/%: $(B)/client/examples/%.o $(B)/libuserev.a
	@mkdir -p $(@D)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@

# As others build them: with the shared library.
$(B)/examples/plugin.so $(B)/examples/libstack.so: $(B)/examples/%.so: $(B)/libuserev.so
	@mkdir -p $(@D)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) -shared $(filter %.o,$^) -o $@ -L$(B) -luserev -Wl,-rpath,'$$ORIGIN/..'

$(B)/examples/plugin.so: $(B)/client/examples/plugin.o
$(B)/examples/libstack.so: $(B)/client/examples/stack.o

$(B)/examples/use_stack: $(B)/client/examples/use_stack.o $(B)/examples/libstack.so
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $< -o $@ -L$(@D) -lstack -Wl,-rpath-link,$(B) -Wl,-rpath,'$$ORIGIN:$$ORIGIN/..'

$(B)/examples/tasks: client/examples/tasks.cc client/userev.h client/userev_event.h $(B)/libuserev.a
	@mkdir -p $(@D)
	@echo '  CXX     $<'
	$(Q)$(CXX) -std=c++17 -Wall -Wextra -Werror $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(CFLAGS) -Iclient $< $(B)/libuserev.a -o $@ -pthread

# --- the guard: BPF programs, and their loader; left out where what it takes is missing ---

GUARD := guard guard_directory guard_keeper guard_machine guard_mounts guard_program guard_status
GUARD_TESTS := $(addprefix $(B)/tests/,test_guard test_guard_loader test_unguarded)
GUARD_SKELETON := $(B)/skeleton/guard.skel.h
BPFTOOL ?= $(shell PATH="$$PATH:/usr/sbin:/sbin" command -v bpftool)
BPF_CLANG ?= $(shell command -v clang)
# The headers of the C library have a part that is this machine's.
BPF_CFLAGS = -target bpf -mcpu=v3 -O2 -g -Wall -Wextra -Wno-unused-parameter -Wshadow -Werror -I. \
	-idirafter /usr/include/$(shell $(BPF_CLANG) -print-multiarch)
GUARD_LACKS := $(if $(BPF_CLANG),,clang) $(if $(BPFTOOL),,bpftool) $(shell pkg-config --exists libbpf || echo libbpf)

ifeq ($(strip $(GUARD_LACKS)),)
build: $(B)/userevd-guard
build-tests: $(GUARD_TESTS)
confined: $(CONFINED)/userevd-guard
tidy analyze: $(GUARD_SKELETON)
INSTALLED += 755:$(B)/userevd-guard:$(LIBEXECDIR) 644:kernel/userevd-guard.8:$(MANDIR)/man8
else
build: without-guard
endif

.PHONY: without-guard
without-guard:
	@echo '  SKIP    userevd-guard is left out, for this machine lacks: $(strip $(GUARD_LACKS))'

$(B)/kernel/guard.bpf.o: kernel/guard.bpf.c kernel/guard.h kernel/guard_types.h
	@mkdir -p $(@D)
	@echo '  BPF     $<'
	$(Q)$(BPF_CLANG) $(BPF_CFLAGS) -c $< -o $@

# Linked once more, which leaves out what a debugger would want.
$(GUARD_SKELETON): $(B)/kernel/guard.bpf.o
	@mkdir -p $(@D)
	@echo '  SKEL    $@'
	$(Q)$(BPFTOOL) gen object $(@D)/guard.o $<
	$(Q)$(BPFTOOL) gen skeleton $(@D)/guard.o name guard_bpf >$@

$(B)/kernel/guard_program.o: EXTRA_CFLAGS = -isystem $(B)/skeleton
$(B)/kernel/guard_program.o: $(GUARD_SKELETON)

$(B)/userevd-guard: $(call objects,kernel,$(GUARD) privileges) $(B)/protocol/text.o
	@echo '  LINK    $@'
	$(Q)$(PROGRAM) $(call pkg,--libs,libbpf)

# --- tests ---

SUITE_OBJECTS := $(B)/tests/suite.o
FIXTURE_OBJECTS := $(call objects,tests/integration,cgroups fixture keeper machine pair raw samples scene tracer) $(call objects,kernel,message probe)

$(B)/tests/suite.o $(B)/tests/unit/%.o $(B)/tests/integration/%.o: EXTRA_CFLAGS = $(call pkg,--cflags,check libtracefs) -Wno-format-nonliteral

$(UNIT_TESTS:%=$(B)/tests/%): $(B)/tests/%: $(B)/tests/unit/%.o $(SUITE_OBJECTS) $(DAEMON_OBJECTS) $(KERNEL_OBJECTS) $(PROTOCOL_OBJECTS)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@ -pthread -lev $(call pkg,--libs,check libsystemd)

$(KEEPER_TESTS:%=$(B)/tests/%): $(B)/tests/%: $(B)/tests/unit/%.o $(SUITE_OBJECTS) $(KEEPER_OBJECTS) $(PROTOCOL_OBJECTS)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@ -pthread $(call pkg,--libs,check)

$(B)/tests/test_async $(B)/tests/test_bundles $(B)/tests/test_clock $(B)/tests/test_daemon $(B)/tests/test_declared $(B)/tests/test_files $(B)/tests/test_restore $(B)/tests/test_settling $(B)/tests/test_streams $(B)/tests/test_suspects $(B)/tests/test_systemd: $(call objects,tests/unit,shortage world)
$(B)/tests/test_bundles $(B)/tests/test_daemon $(B)/tests/test_declared $(B)/tests/test_files $(B)/tests/test_restore $(B)/tests/test_streams $(B)/tests/test_suspects: $(call objects,tests/unit,books fake_kernel)
$(B)/tests/test_level $(B)/tests/test_policy $(B)/tests/test_remote: $(B)/tests/unit/shortage.o
$(B)/tests/test_keeper_serve: $(B)/kernel/remote.o
$(B)/tests/test_alive $(B)/tests/test_client: $(LIBRARY_OBJECTS)
$(B)/tests/test_output: $(call objects,client,ctl_output ctl_table ctl_json)
$(B)/tests/test_emit_line: $(B)/client/ctl_emit_line.o
$(B)/tests/test_tenant_name: $(B)/client/ctl_tenant_name.o
$(B)/tests/test_top: $(call objects,client,ctl_output ctl_tenant_name ctl_tenant_view ctl_top_frame ctl_top_keys)
$(B)/tests/test_catalogue: $(call objects,client,tracer_tracefs_catalogue tracer_tracefs_text)
$(B)/tests/test_tracefs_text: $(call objects,client,tracer_tracefs_text)

$(INTEGRATION_TESTS:%=$(B)/tests/%) $(B)/tests/test_confined: $(B)/tests/%: $(B)/tests/integration/%.o $(FIXTURE_OBJECTS) $(SUITE_OBJECTS) $(PROTOCOL_OBJECTS) $(B)/libuserev.a
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@ $(call pkg,--libs,check)

$(B)/tests/test_page_attacks: $(call objects,tests/kernel,page_attempts pages people)

$(B)/tests/soak/%.o: EXTRA_CFLAGS = $(call pkg,--cflags,check) -Wno-format-nonliteral

$(SOAK_TEST): $(call objects,tests/soak,test_soak figures honest hostile) $(FIXTURE_OBJECTS) $(SUITE_OBJECTS) $(PROTOCOL_OBJECTS) $(B)/libuserev.a
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@ $(call pkg,--libs,check)

# Programs and libraries as others build them: the shared library, and no more of ours.
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

# The daemon as its next version may be, as far as a ledger shows that.
$(B)/tests/userevd-next: $(B)/daemon/main.o $(B)/tests/integration/next_ledger.o $(filter-out $(B)/daemon/ledger.o,$(DAEMON_OBJECTS)) \
		$(KERNEL_OBJECTS) $(PROTOCOL_OBJECTS)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@ -pthread -lev $(call pkg,--libs,libsystemd)

# --- the same daemon and keeper, under the filters of their units ---

CONFINED_LISTS := $(B)/skeleton/userevd_syscalls.h $(B)/skeleton/userevd-keeper_syscalls.h

$(CONFINED_LISTS): $(B)/skeleton/%_syscalls.h: systemd/%.service.in tests/systemd/unit_syscalls.sh
	@mkdir -p $(@D)
	@echo '  LIST    $@'
	$(Q)tests/systemd/unit_syscalls.sh $< >$@

$(call objects,tests/systemd,confined_daemon confined_keeper): EXTRA_CFLAGS = -isystem $(B)/skeleton
$(call objects,tests/systemd,confined_daemon confined_keeper): $(CONFINED_LISTS)

$(CONFINED)/userevd: $(B)/daemon/main.o $(call objects,tests/systemd,confine confined_daemon) $(DAEMON_OBJECTS) $(KERNEL_OBJECTS) $(PROTOCOL_OBJECTS)
	@mkdir -p $(@D)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) -Wl,--wrap=daemon_run $^ -o $@ -pthread -lev $(call pkg,--libs,libsystemd)

$(CONFINED)/userevd-keeper: $(B)/kernel/keeper_main.o $(call objects,tests/systemd,confine confined_keeper) $(KEEPER_OBJECTS) $(PROTOCOL_OBJECTS)
	@mkdir -p $(@D)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) -Wl,--wrap=user_events_new $^ -o $@ -pthread

# All else is what it is everywhere, where tests look for daemon and keeper.
$(CONFINED_TOOLS) $(CONFINED_TESTS) $(CONFINED)/userevd-guard: $(CONFINED)/%: $(B)/%
	@mkdir -p $(@D)
	$(Q)ln -f $< $@

tidy: $(CONFINED_LISTS)
$(B)/tests/test_confined: $(B)/tests/systemd/confine.o

confined: $(CONFINED)/userevd $(CONFINED)/userevd-keeper $(CONFINED_TOOLS) $(CONFINED_TESTS)

$(B)/tests/restart_load: $(B)/tests/systemd/restart_load.o $(PROTOCOL_OBJECTS)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@

# What the benchmarks compare us with has headers of its own, which are not made for all our warnings.
BENCH_OBJECTS := $(call objects,tests/bench,bench broker direct echo programs)
$(B)/tests/bench/rival_lttng.o $(B)/tests/bench/rival_usdt.o: EXTRA_CFLAGS = -Wno-undef -Wno-strict-prototypes -Wno-old-style-definition \
	-Wno-cast-align -Wno-pointer-arith
$(B)/tests/bench/bench_off.o $(B)/tests/bench/rival_lttng.o $(B)/tests/bench/rival_usdt.o: EXTRA_CFLAGS += -fno-unroll-loops -falign-loops=64

$(BENCHES): $(B)/tests/%: $(B)/tests/bench/%.o $(BENCH_OBJECTS) $(PROTOCOL_LIBRARY_OBJECTS) $(B)/libuserev.a
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@ $(BENCH_LIBRARIES)

$(B)/tests/bench_quota: $(call objects,daemon,bucket charge level quota reserve) $(B)/protocol/table.o
$(B)/tests/bench_connections: $(B)/tests/bench/rival_dbus.o
$(B)/tests/bench_off: $(B)/tests/bench/rival_usdt.o
$(B)/tests/bench_embedded: $(B)/tests/bench/rival_journal.o
$(B)/tests/bench_embedded $(B)/tests/bench_off $(B)/tests/bench_record: $(B)/tests/bench/rival_lttng.o
$(B)/tests/bench_embedded $(B)/tests/bench_off $(B)/tests/bench_record: BENCH_LIBRARIES = -llttng-ust -ldl

$(B)/tests/emitter: $(B)/tests/integration/emitter.o $(PROTOCOL_OBJECTS) $(B)/libuserev.a
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@

# Of libuserev, for the suite that all clients pass.
$(B)/tests/driver: $(B)/tests/conformance/driver.o $(PROTOCOL_OBJECTS) $(B)/libuserev.a
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@

$(B)/tests/hammer: $(B)/tests/integration/hammer.o $(B)/libuserev.a
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@ -pthread

# Preloaded, it lets calls of the C library fail. It is called before ASan is ready to look at what it does.
$(B)/tests/faults/faults.o: EXTRA_CFLAGS = -fno-sanitize=all $(if $(findstring address,$(SANITIZE)),-DBEHIND_ASAN)
$(B)/tests/faults.so: $(B)/tests/faults/faults.o
	@echo '  LINK    $@'
	$(Q)$(CC) $(LDFLAGS) $(if $(COVERAGE),--coverage) -shared $^ -o $@

$(B)/tests/direct: $(B)/tests/integration/direct.o $(PROTOCOL_OBJECTS)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@

# What the kernel promises: for guests, as root. See tests/kernel/user_events.h.
KERNEL_TEST_OBJECTS := $(call objects,tests/kernel,page_attempts pages people tracing user_events)

$(B)/tests/kernel/%.o: EXTRA_CFLAGS = $(call pkg,--cflags,check) -Wno-format-nonliteral

$(KERNEL_TESTS:%=$(B)/tests/%): $(B)/tests/%: $(B)/tests/kernel/%.o $(KERNEL_TEST_OBJECTS) $(SUITE_OBJECTS)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@ $(call pkg,--libs,check)

$(B)/tests/test_narrow: | $(B)/tests/kernel/narrow

$(B)/tests/kernel/narrow: tests/kernel/narrow.c kernel/uapi.h
	@mkdir -p $(@D)
	@echo '  CC      $< (32 bits)'
	$(Q)$(CC) -m32 -std=c17 -D_GNU_SOURCE -I. $(WARNINGS) $(CFLAGS) $< -o $@

kernel-tests: $(KERNEL_TESTS:%=$(B)/tests/%)

# The guard: for guests, as root, too.
$(B)/tests/guard/%.o: EXTRA_CFLAGS = $(call pkg,--cflags,check) -Wno-format-nonliteral

$(GUARD_TESTS): $(B)/tests/%: $(B)/tests/guard/%.o $(call objects,tests/guard,bypass loader profile stand_in ways) $(SUITE_OBJECTS) \
		$(B)/kernel/privileges.o | $(B)/tests/guard_caller $(B)/tests/guard_caller32
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@ $(call pkg,--libs,check libbpf)

$(B)/tests/test_unguarded: $(FIXTURE_OBJECTS) $(PROTOCOL_OBJECTS) $(B)/libuserev.a

$(B)/tests/guard_caller: $(B)/tests/guard/caller.o
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@

$(B)/tests/guard_caller32: tests/guard/caller.c tests/guard/attempt.h kernel/uapi.h
	@mkdir -p $(@D)
	@echo '  CC      $< (32 bits)'
	$(Q)$(CC) -m32 -std=c17 -D_GNU_SOURCE -I. $(WARNINGS) $(CFLAGS) $< -o $@

-include $(shell find $(B) -path $(B)/deb -prune -o -name '*.d' -type f -print 2>/dev/null)
