# SPDX-License-Identifier: GPL-2.0-or-later
#
# make help lists the targets. All output lies below $(B).

VERSION := 0.1.0
SOVERSION := 1

B ?= build
ifeq ($(strip $(B)),)
$(error B= has to name the directory to build in)
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
DATADIR ?= $(PREFIX)/share/userevd
TMPFILESDIR ?= $(PREFIX)/lib/tmpfiles.d
DESTDIR ?=
CC ?= gcc
# The tools that belong to the compiler, which may be one for another machine.
tool = $(shell $(CC) -print-prog-name=$(1))
LD_RELOCATABLE ?= $(call tool,ld) -r
SANITIZE ?=
COVERAGE ?=
DEPENDENCIES ?= auto
JOBS ?= $(shell nproc)
Q := $(if $(filter 1,$(V)),,@)

# Packages of a fresh Debian 12, beside make, to build and run.
BUILD_PACKAGES := gcc libc6-dev pkg-config libsystemd-dev libtracefs-dev libtraceevent-dev libzstd-dev libev-dev uthash-dev \
	clang bpftool libbpf-dev

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wpointer-arith \
	-Wwrite-strings -Wundef -Wvla -Wformat=2 -Wimplicit-fallthrough=5 -Wcast-align -Wnull-dereference -Werror
CFLAGS ?= -O2 -g
BASE_CFLAGS := -std=c17 -D_GNU_SOURCE -DVERSION='"$(VERSION)"' -I. -fPIC -fvisibility=hidden $(WARNINGS) -MMD -MP \
	$(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer) \
	$(if $(COVERAGE),--coverage -O0 -fprofile-update=atomic -include tests/counted_exit.h)
BASE_LDFLAGS := $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(if $(COVERAGE),--coverage)

# Hardening, as far as the compiler and the machine support it; tests/unit/test_hardening.sh checks the built programs for it. libc's
# checks need an optimiser, do not work with a sanitizer, and are chosen by Debian in its packages.
supported = $(shell $(CC) -Werror $(1) -x c -S -o /dev/null - </dev/null 2>/dev/null && echo $(1))
CHECKS_OF_LIBC := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3
HARDENING := -fstack-protector-strong $(call supported,-fstack-clash-protection) \
	$(or $(call supported,-fcf-protection=full),$(call supported,-mbranch-protection=standard)) \
	$(if $(SANITIZE)$(COVERAGE)$(findstring _FORTIFY_SOURCE,$(CFLAGS))$(filter -O0,$(CFLAGS)),,$(if $(filter -O%,$(CFLAGS)),$(CHECKS_OF_LIBC)))
BASE_CFLAGS += $(HARDENING)
BASE_LDFLAGS += -Wl,-z,relro,-z,now,-z,noexecstack -fno-lto
# The daemon is optimised as a whole when it is linked; other programs take the ordinary code of the same objects.
LTO := $(if $(SANITIZE)$(COVERAGE),,$(call supported,-flto=auto -ffat-lto-objects))
# Installed programs are position-independent.
PIE := -pie
PROGRAM = $(CC) $(PIE) $(BASE_LDFLAGS) $(LDFLAGS) $(filter %.o,$^) -o $@
# If this machine has a static C library.
STATIC_PIE = $(if $(SANITIZE)$(COVERAGE),,$(shell echo 'int main(void) { return 0; }' | $(CC) -static-pie -x c -o /dev/null - 2>/dev/null && echo -static-pie))

# The objects of folders, without the sources of the second argument.
objects = $(patsubst %.c,$(B)/%.o,$(filter-out %.bpf.c $(2),$(wildcard $(1:%=%/*.c))))

PROTOCOL_LIBRARY_OBJECTS := $(call objects,protocol,protocol/row.c)
PROTOCOL_OBJECTS := $(call objects,protocol protocol/base protocol/event)
# In the daemon, which is the tracer itself where the kernel has no user_events; and in the keeper.
KERNEL_OBJECTS := $(call objects,kernel kernel/embedded kernel/rpc)
KEEPER_OBJECTS := $(call objects,kernel kernel/user_events kernel/keeper,kernel/keeper/main.c) $(B)/kernel/rpc/message.o
DAEMON_OBJECTS := $(call objects,daemon daemon/*,daemon/main.c)
LIBRARY_OBJECTS := $(call objects,client/library)
CTL_OBJECTS := $(call objects,client/userevctl client/userevctl/*)
# Also in userevctl, which checks policy files and explains them without a daemon.
POLICY_OBJECTS := $(call objects,daemon/policy)
CGROUP_OBJECTS := $(B)/daemon/identity/cgroup.o

PROGRAMS := $(B)/userevd $(B)/userevd-keeper $(B)/userevctl
LIBRARIES := $(addprefix $(B)/libuserev,.so.$(SOVERSION) .so .a .pc -uninstalled.pc)
UNITS := $(patsubst %.in,$(B)/%,$(wildcard systemd/*.service.in))
# Other files that name installed ones.
TEMPLATES := $(B)/systemd/tmpfiles/userevd.conf $(B)/systemd/containers/cdi.json $(B)/systemd/containers/podman-hook.json
EXAMPLES := $(addprefix $(B)/examples/,activity hello plugin.so plugin_host requests server use_stack)

# "+": make does not see that the recipes that begin with it run make.
BUILD = +$(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(JOBS)) DEPENDENCIES=skip

.PHONY: FORCE all build clean demo dependencies help run test without-guard
.DELETE_ON_ERROR:
.SECONDARY:

## make                 Build everything below $(B)/.
all: dependencies
	$(Q)$(BUILD) build

build: $(PROGRAMS) $(LIBRARIES) $(EXAMPLES) $(UNITS) $(TEMPLATES)

# Prints the lines that begin with two hashes.
help:
	@sed -n 's/^## //p' $(filter %akefile %.mk,$(MAKEFILE_LIST)) | sed 's|$$(B)|$(B)|; s|$$(PREFIX)|$(PREFIX)|'
	@echo
	@echo 'Variables: B=DIR where to build, CC=…, CFLAGS=…, JOBS=N, V=1 to see commands, DEPENDENCIES=skip to install nothing.'

## make run             Build, and start the daemon in the foreground with the best backend of this machine.
run: dependencies
	$(Q)$(BUILD) build
	$(Q)B=$(B) tests/run-daemon.sh

## make demo            Show every feature in half a minute.
demo: dependencies
	$(Q)$(BUILD) build
	$(Q)B=$(B) tests/demo.sh

# Its recipe is in tests/tests.mk.
test: dependencies
## make clean           Remove $(B)/.
clean:
	$(Q)rm -rf $(B)

# Installs missing packages as root; otherwise lists them.
define install_packages
	@[ '$(DEPENDENCIES)' = skip ] || tests/packages.sh $(1)
endef

dependencies:
	$(call install_packages,$(BUILD_PACKAGES))

# --- how things are built ---

pkg = $(shell pkg-config $(1) $(2))

$(B)/%.o: %.c
	@mkdir -p $(@D)
	@echo '  CC      $<'
	$(Q)$(CC) $(BASE_CFLAGS) $(CFLAGS) $(EXTRA_CFLAGS) -c $< -o $@

$(B)/client/userevctl/tracing/%.o $(B)/client/userevctl/session/%.o: EXTRA_CFLAGS = $(call pkg,--cflags,libtracefs)
$(B)/client/examples/%.o: EXTRA_CFLAGS = -Iclient -fvisibility=default
$(B)/daemon/main.o $(DAEMON_OBJECTS) $(KERNEL_OBJECTS) $(PROTOCOL_OBJECTS): EXTRA_CFLAGS = $(LTO)

$(B)/userevd: $(B)/daemon/main.o $(DAEMON_OBJECTS) $(KERNEL_OBJECTS) $(PROTOCOL_OBJECTS)
	@echo '  LINK    $@'
	$(Q)$(filter-out -fno-lto,$(PROGRAM)) $(LTO) -pthread -lev

# Static: a process with enablers, which is the same program, starts with a quarter of the instructions, and takes less memory.
$(B)/userevd-keeper: PIE := $(or $(STATIC_PIE),$(PIE))
$(B)/userevd-keeper: $(B)/kernel/keeper/main.o $(KEEPER_OBJECTS) $(PROTOCOL_OBJECTS)
	@echo '  LINK    $@'
	$(Q)$(PROGRAM) -pthread

$(B)/userevctl: $(CTL_OBJECTS) $(LIBRARY_OBJECTS) $(POLICY_OBJECTS) $(CGROUP_OBJECTS) $(B)/kernel/probe.o $(PROTOCOL_OBJECTS)
	@echo '  LINK    $@'
	$(Q)$(PROGRAM) $(call pkg,--libs,libtracefs libzstd)

# Never unloaded: the end of a program looks like dlclose(), and other threads may still emit.
$(B)/libuserev.so.$(SOVERSION): $(LIBRARY_OBJECTS) $(PROTOCOL_LIBRARY_OBJECTS) client/libuserev.map
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) -shared -Wl,-soname,$(@F) -Wl,-z,nodelete -Wl,--version-script=client/libuserev.map \
		$(if $(SANITIZE),,-Wl,-z,defs) $(filter %.o,$^) -o $@

$(B)/libuserev.so: $(B)/libuserev.so.$(SOVERSION)
	$(Q)ln -sf $(<F) $@

# One object in which only userev_* is global, so that a program may have a decode_message() of its own. (On 32 bits every
# object has the compiler's thunks, of which the linker keeps one: they stay global.)
$(B)/libuserev.a: $(LIBRARY_OBJECTS) $(PROTOCOL_LIBRARY_OBJECTS)
	@echo '  AR      $@'
	$(Q)$(LD_RELOCATABLE) $^ -o $(B)/libuserev.o
	$(Q)$(call tool,objcopy) --wildcard --remove-section='.gnu.*lto_*' --keep-global-symbol='userev_*' --keep-global-symbol='__x86.*' $(B)/libuserev.o
	$(Q)rm -f $@
	$(Q)$(call tool,ar) rcs $@ $(B)/libuserev.o

$(B)/examples/%: $(B)/client/examples/%.o $(B)/libuserev.a
	@mkdir -p $(@D)
	@echo '  LINK    $@'
	$(Q)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -o $@

# Built as by users: with the shared library.
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
	$(Q)$(CXX) -std=c++17 -Wall -Wextra -Werror $(CFLAGS) -Iclient $< $(B)/libuserev.a $(BASE_LDFLAGS) $(LDFLAGS) -o $@ -pthread

# --- the guard: BPF programs, and their loader; left out if a tool for them is missing ---

GUARD_SKELETONS := $(B)/skeleton/guard.skel.h $(B)/skeleton/admission.skel.h
BPFTOOL ?= $(shell PATH="$$PATH:/usr/sbin:/sbin" command -v bpftool)
BPF_CLANG ?= $(shell command -v clang)
# Some headers of the C library are in the machine's own folder.
BPF_CFLAGS = -target bpf -mcpu=v3 -O2 -g -Wall -Wextra -Wno-unused-parameter -Wshadow -Werror -I. \
	-idirafter /usr/include/$(shell $(BPF_CLANG) -print-multiarch)
byte_order = $(shell $(1) -dM -E -x c /dev/null 2>/dev/null | sed -n 's/.*__BYTE_ORDER__ //p')
# bpftool reads no programs of the other byte order.
GUARD_LACKS := $(if $(BPF_CLANG),,clang) $(if $(BPFTOOL),,bpftool) $(shell pkg-config --exists libbpf || echo libbpf) \
	$(if $(filter-out $(call byte_order,$(CC)),$(call byte_order,$(BPF_CLANG) -target bpf)),a bpftool for the byte order of $(CC))

ifeq ($(strip $(GUARD_LACKS)),)
build: $(B)/userevd-guard
HAS_GUARD := yes
else
build: without-guard
endif

without-guard:
	@echo '  SKIP    userevd-guard is left out, because this machine lacks: $(strip $(GUARD_LACKS))'

GUARD_HEADERS := $(wildcard kernel/guard/*.h kernel/guard/admission/*.h)
$(B)/kernel/guard/%.bpf.o: kernel/guard/%.bpf.c $(GUARD_HEADERS)
	@mkdir -p $(@D)
	@echo '  BPF     $<'
	$(Q)$(BPF_CLANG) $(BPF_CFLAGS) -c $< -o $@

# Linked again, which strips debug information.
$(B)/skeleton/guard.skel.h: $(B)/kernel/guard/guard.bpf.o
$(B)/skeleton/admission.skel.h: $(B)/kernel/guard/admission/admission.bpf.o
$(B)/skeleton/%.skel.h:
	@mkdir -p $(@D)
	@echo '  SKEL    $@'
	$(Q)$(BPFTOOL) gen object $(@D)/$*.o $<
	$(Q)$(BPFTOOL) gen skeleton $(@D)/$*.o name $*_bpf >$@

$(B)/kernel/guard/program.o $(B)/kernel/guard/admission.o: EXTRA_CFLAGS = -isystem $(B)/skeleton
$(B)/kernel/guard/program.o: $(B)/skeleton/guard.skel.h
$(B)/kernel/guard/admission.o: $(B)/skeleton/admission.skel.h

$(B)/userevd-guard: $(call objects,kernel/guard) $(B)/kernel/privileges.o $(call objects,protocol/base)
	@echo '  LINK    $@'
	$(Q)$(PROGRAM) $(call pkg,--libs,libbpf)

include systemd/packaging.mk
# tests/ is not in Debian's source package.
-include tests/tests.mk $(shell find $(B) -path $(B)/deb -prune -o -name '*.d' -type f -print 2>/dev/null)
