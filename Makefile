# SPDX-License-Identifier: GPL-2.0-or-later
#
# make help lists the targets. Everything that is built lies below $(B).

VERSION := 0.1.0
SOVERSION := 1

B ?= build
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
BINDIR ?= $(PREFIX)/bin
SBINDIR ?= $(PREFIX)/sbin
MANDIR ?= $(PREFIX)/share/man
UNITDIR ?= $(PREFIX)/lib/systemd/system
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
BUILD_PACKAGES := gcc libc6-dev pkg-config libsystemd-dev libtracefs-dev libtraceevent-dev libev-dev uthash-dev
TEST_PACKAGES := $(BUILD_PACKAGES) check binutils gcc-multilib g++ clang clang-format clang-tidy cppcheck mandoc python3 procps systemd util-linux

KERNEL_PACKAGES := gcc make bc bison flex kmod xz-utils libc6-dev libelf-dev libssl-dev dwarves linux-source-6.12 linux-source-6.1

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wpointer-arith \
	-Wwrite-strings -Wundef -Wvla -Wformat=2 -Wimplicit-fallthrough=5 -Wcast-align -Wnull-dereference -Werror
CFLAGS ?= -O2 -g
BASE_CFLAGS := -std=c17 -D_GNU_SOURCE -DVERSION='"$(VERSION)"' -I. -fPIC -fvisibility=hidden $(WARNINGS) -MMD -MP \
	$(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer) \
	$(if $(COVERAGE),--coverage -O0 -fprofile-update=atomic)
BASE_LDFLAGS := $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(if $(COVERAGE),--coverage)

PROTOCOL_LIBRARY := decode encode fdset refusal transport
PROTOCOL := $(PROTOCOL_LIBRARY) description disposal record row table text
KERNEL := embedded embedded_event page probe ring roster source tracer
DAEMON := cgroup client control daemon dispatch event hello lease listener listing log options peer query quota register \
	release stream tail tenant turns watch
LIBRARY := connection event lock open page register release stream write
CTL := userevctl ctl_control ctl_doctor ctl_doctor_event ctl_emit ctl_finding ctl_greet ctl_json ctl_names ctl_options \
	ctl_output ctl_private ctl_record ctl_run ctl_show ctl_status ctl_suggest ctl_table ctl_trace

UNIT_TESTS := test_async test_cgroup test_client test_decode test_description test_disposal test_embedded test_fdset test_log test_options test_output \
	test_page test_probe test_quota test_record test_refusal test_ring test_roster test_row test_table test_text \
	test_transport test_turns
INTEGRATION_TESTS := test_library test_limits test_raw test_tenants
SCRIPT_TESTS := tests/unit/test_disassembly.sh tests/unit/test_man.py tests/unit/test_symbols.sh \
	tests/integration/test_32bit.sh tests/integration/test_demo.sh tests/integration/test_install.sh \
	tests/integration/test_run.sh tests/integration/test_userevctl.sh

objects = $(foreach name,$(2),$(B)/$(1)/$(name).o)
PROTOCOL_LIBRARY_OBJECTS := $(call objects,protocol,$(PROTOCOL_LIBRARY))
PROTOCOL_OBJECTS := $(call objects,protocol,$(PROTOCOL))
KERNEL_OBJECTS := $(call objects,kernel,$(KERNEL))
DAEMON_OBJECTS := $(call objects,daemon,$(DAEMON))
LIBRARY_OBJECTS := $(call objects,client,$(LIBRARY))
CTL_OBJECTS := $(call objects,client,$(CTL))

PROGRAMS := $(B)/userevd $(B)/userevctl
LIBRARIES := $(B)/libuserev.so.$(SOVERSION) $(B)/libuserev.so $(B)/libuserev.a $(B)/libuserev.pc \
	$(B)/libuserev-uninstalled.pc
EXAMPLES := $(B)/examples/hello $(B)/examples/requests
TESTS := $(UNIT_TESTS:%=$(B)/tests/%) $(INTEGRATION_TESTS:%=$(B)/tests/%)

BUILD = $(MAKE) --no-print-directory -j$(JOBS) DEPENDENCIES=skip
ASAN := $(B)/asan
ASAN_TESTS := $(TESTS:$(B)/%=$(ASAN)/%) tests/integration/test_userevctl.sh
BUILD_ASAN = $(BUILD) B=$(ASAN) SANITIZE=address,undefined

.PHONY: all build build-tests install uninstall kernels help run demo test check asan coverage tidy format clean dependencies test-dependencies
.PHONY: FORCE
.DELETE_ON_ERROR:
.SECONDARY:

all: dependencies
	$(Q)$(BUILD) build

build: $(PROGRAMS) $(LIBRARIES) $(EXAMPLES) $(B)/userevd.service

help:
	@echo 'make             build everything below $(B)/'
	@echo 'make run         build, and start the daemon in the foreground with what this machine has'
	@echo 'make demo        the whole tour in half a minute, without a keyboard'
	@echo 'make test        everything that CI runs: check, asan, tidy'
	@echo 'make check       unit and integration tests'
	@echo 'make asan        the same under AddressSanitizer and UndefinedBehaviorSanitizer'
	@echo 'make coverage    line coverage of the same'
	@echo 'make tidy        clang-format, clang-tidy, cppcheck'
	@echo 'make kernels     two kernels with user_events for guests, from Debian'"'"'s sources; about twenty minutes, once'
	@echo 'make format      let clang-format have its way'
	@echo 'make install     below PREFIX=$(PREFIX), with DESTDIR= in front; make uninstall takes it away again'
	@echo 'make clean       remove $(B)/'
	@echo
	@echo 'Variables: B=DIR where to build, CC=…, CFLAGS=…, JOBS=N, V=1 to see commands, DEPENDENCIES=skip to install nothing.'

run: dependencies
	$(Q)$(BUILD) build
	$(Q)B=$(B) tests/run-daemon.sh

demo: dependencies
	$(Q)$(BUILD) build
	$(Q)B=$(B) tests/demo.sh

# Both builds are tested in one go, so that the sum at the end is of everything.
test: test-dependencies
	$(Q)$(BUILD) tidy
	$(Q)$(BUILD) build-tests
	$(Q)$(BUILD_ASAN) build-tests
	$(Q)tests/run-tests.sh $(B) $(TESTS) $(SCRIPT_TESTS) -- $(ASAN) $(ASAN_TESTS)

check: test-dependencies
	$(Q)$(BUILD) build-tests
	$(Q)tests/run-tests.sh $(B) $(TESTS) $(SCRIPT_TESTS)

asan: test-dependencies
	$(Q)$(BUILD_ASAN) build-tests
	$(Q)tests/run-tests.sh $(ASAN) $(ASAN_TESTS)

# For the guests that the backends to come are tested in; kept outside the checkout, so that a second time costs nothing.
kernels:
	$(call install_packages,$(KERNEL_PACKAGES))
	$(Q)tests/vm/build-kernel.sh 6.12
	$(Q)tests/vm/build-kernel.sh 6.1

coverage: test-dependencies
	$(Q)$(BUILD) B=$(B)/coverage COVERAGE=1 build-tests
	$(Q)find $(B)/coverage -name '*.gcda' -delete
	$(Q)tests/run-tests.sh $(B)/coverage $(TESTS:$(B)/%=$(B)/coverage/%) tests/integration/test_userevctl.sh
	$(Q)tests/coverage.sh $(B)/coverage

build-tests: build $(TESTS)

# What is installed, as mode:file:directory; uninstall takes away just that.
INSTALLED = 755:$(B)/userevd:$(SBINDIR) 755:$(B)/userevctl:$(BINDIR) 755:$(B)/libuserev.so.$(SOVERSION):$(LIBDIR) \
	644:$(B)/libuserev.a:$(LIBDIR) 644:client/userev.h:$(INCLUDEDIR) 644:$(B)/libuserev.pc:$(LIBDIR)/pkgconfig \
	644:$(B)/userevd.service:$(UNITDIR) 644:client/userevctl.1:$(MANDIR)/man1 \
	644:protocol/userevd-protocol.7:$(MANDIR)/man7 644:daemon/userevd.8:$(MANDIR)/man8

install: build
	$(Q)for entry in $(INSTALLED); do \
		IFS=:; set -- $$entry; \
		install -D -m $$1 $$2 "$(DESTDIR)$$3/$${2##*/}" || exit 1; \
	done
	$(Q)ln -sf libuserev.so.$(SOVERSION) $(DESTDIR)$(LIBDIR)/libuserev.so

uninstall:
	$(Q)for entry in $(INSTALLED); do \
		IFS=:; set -- $$entry; \
		rm -f "$(DESTDIR)$$3/$${2##*/}"; \
	done
	$(Q)rm -f $(DESTDIR)$(LIBDIR)/libuserev.so

SOURCES = $(wildcard protocol/*.c kernel/*.c daemon/*.c client/*.c client/examples/*.c tests/*.c tests/*/*.c)
HEADERS = $(wildcard protocol/*.h kernel/*.h daemon/*.h client/*.h tests/*.h tests/*/*.h)

tidy: test-dependencies
	@echo '  CHECK   clang-format, clang-tidy, cppcheck'
	$(Q)clang-format --dry-run -Werror $(SOURCES) $(HEADERS)
	$(Q)tests/tidy.sh $(SOURCES)

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

$(B)/client/ctl_doctor.o: EXTRA_CFLAGS = $(call pkg,--cflags,libtracefs)
$(B)/client/examples/%.o: EXTRA_CFLAGS = -Iclient

$(B)/userevd: $(B)/daemon/main.o $(DAEMON_OBJECTS) $(KERNEL_OBJECTS) $(PROTOCOL_OBJECTS)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@ -lev $(call pkg,--libs,libsystemd)

$(B)/userevctl: $(CTL_OBJECTS) $(LIBRARY_OBJECTS) $(B)/kernel/probe.o $(PROTOCOL_OBJECTS)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@ $(call pkg,--libs,libtracefs)

$(B)/libuserev.so.$(SOVERSION): $(LIBRARY_OBJECTS) $(PROTOCOL_LIBRARY_OBJECTS) client/libuserev.map
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) -shared -Wl,-soname,$(@F) -Wl,--version-script=client/libuserev.map \
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

$(B)/userevd.service: systemd/userevd.service.in FORCE
	@mkdir -p $(@D)
	$(Q)sed -e 's|@SBINDIR@|$(SBINDIR)|g' $< > $@

$(B)/examples/%: $(B)/client/examples/%.o $(B)/libuserev.a
	@mkdir -p $(@D)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@

# --- tests ---

SUITE_OBJECTS := $(B)/tests/suite.o
FIXTURE_OBJECTS := $(B)/tests/integration/fixture.o $(B)/tests/integration/raw.o

$(B)/tests/suite.o $(B)/tests/unit/%.o $(B)/tests/integration/%.o: EXTRA_CFLAGS = $(call pkg,--cflags,check) -Wno-format-nonliteral

$(UNIT_TESTS:%=$(B)/tests/%): $(B)/tests/%: $(B)/tests/unit/%.o $(SUITE_OBJECTS) $(DAEMON_OBJECTS) $(KERNEL_OBJECTS) $(PROTOCOL_OBJECTS)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@ -lev $(call pkg,--libs,check libsystemd)

$(B)/tests/test_client: $(LIBRARY_OBJECTS)
$(B)/tests/test_output: $(call objects,client,ctl_output ctl_table ctl_json ctl_suggest)

$(INTEGRATION_TESTS:%=$(B)/tests/%): $(B)/tests/%: $(B)/tests/integration/%.o $(FIXTURE_OBJECTS) $(SUITE_OBJECTS) $(PROTOCOL_OBJECTS) $(B)/libuserev.a
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@ $(call pkg,--libs,check)

-include $(shell find $(B) -name '*.d' 2>/dev/null)
